/// conappend [ARRAYS]: four threads make ARRAYS arrays (10,000) by appending the numbers below
/// 1,000 one by one, and add these up, while the first thread copies the text.
///
/// Every sum has to be right.
module conappend;

import report;
import std.algorithm : sum;
import std.conv : to;
import text;
import threads;

enum size_t workers = 4;
enum int numbers = 1_000;

int main(string[] arguments)
{
    const arrays = (arguments.length > 1 ? arguments[1].to!size_t : 10_000) / workers;
    auto right = new size_t[workers];
    bool isRight = workBesideCopies!ubyte(workers, text.text(), (number) {
        foreach (turn; 0 .. arrays)
        {
            int[] array;
            foreach (value; 0 .. numbers)
                array ~= value;
            right[number] += array.sum == numbers * (numbers - 1) / 2;
        }
    });
    return report.report(isRight && right == [arrays, arrays, arrays, arrays]);
}
