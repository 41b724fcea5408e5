// The program mono, on the runtime that relink.sh makes.
int mono_main(int count, char **arguments);

int main(int count, char **arguments) { return mono_main(count, arguments); }
