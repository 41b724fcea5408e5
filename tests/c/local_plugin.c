/* A library with BYTES of thread-local storage, for reused_module.c. */
static __thread char local[BYTES] __attribute__((tls_model("global-dynamic")));

char *touch(void)
{
    local[0] = 1;
    return local;
}
