/* The unwinder's functions, each of which finds libgcc_s when it is first called. A shared library
   that needs libgcc_s costs each program its loading: nine system calls, five mappings, and of a
   small one's time from start to end a tenth; and hardly one ever unwinds. Linked in, it would be
   a second unwinder beside the one that C++ exceptions come by, and the two abort each other.

   Invariant: hidden, in the shared libraries only, and nothing is left on the stack: a function is
   entered as if it had been called in the first place. Called from any thread, by landing pads and
   by Rust's own library. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define FUNCTIONS(F)                                                                              \
    F(Backtrace) F(DeleteException) F(FindEnclosingFunction) F(ForcedUnwind) F(GetCFA)            \
    F(GetDataRelBase) F(GetGR) F(GetIP) F(GetIPInfo) F(GetLanguageSpecificData)                   \
    F(GetRegionStart) F(GetTextRelBase) F(RaiseException) F(Resume) F(Resume_or_Rethrow) F(SetGR) \
    F(SetIP)

/* The function of this name, for a stub that is called first. */
__attribute__((visibility("hidden"), used)) void *neap_find_unwinder(const char *name)
{
    void *library = dlopen("libgcc_s.so.1", RTLD_LAZY);
    void *function = library ? dlsym(library, name) : NULL;
    if (function == NULL) {
        fputs("neap: libgcc_s.so.1 is needed to unwind, and cannot be loaded: install libgcc_s\n",
              stderr);
        abort();
    }
    return function;
}

/* Five arguments at most, in registers; 40 bytes keep the stack aligned. */
#define STUB(name)                                                                                \
    __attribute__((visibility("hidden"))) void *neap_unwinder_##name;                             \
    __asm__(".pushsection .rodata.neap_unwinder,\"a\"\n"                                          \
            ".Lname_" #name ": .asciz \"_Unwind_" #name "\"\n"                                    \
            ".popsection\n"                                                                       \
            ".pushsection .text.neap_unwinder_" #name ",\"ax\",@progbits\n"                       \
            ".globl _Unwind_" #name "\n"                                                          \
            ".hidden _Unwind_" #name "\n"                                                         \
            ".type _Unwind_" #name ",@function\n"                                                 \
            "_Unwind_" #name ":\n"                                                                \
            ".cfi_startproc\n"                                                                    \
            "mov neap_unwinder_" #name "(%rip), %rax\n"                                           \
            "test %rax, %rax\n"                                                                   \
            "jz 1f\n"                                                                             \
            "jmp *%rax\n"                                                                         \
            "1: push %rdi\n.cfi_adjust_cfa_offset 8\n"                                            \
            "push %rsi\n.cfi_adjust_cfa_offset 8\n"                                               \
            "push %rdx\n.cfi_adjust_cfa_offset 8\n"                                               \
            "push %rcx\n.cfi_adjust_cfa_offset 8\n"                                               \
            "push %r8\n.cfi_adjust_cfa_offset 8\n"                                                \
            "lea .Lname_" #name "(%rip), %rdi\n"                                                  \
            "call neap_find_unwinder\n"                                                           \
            "mov %rax, neap_unwinder_" #name "(%rip)\n"                                           \
            "pop %r8\n.cfi_adjust_cfa_offset -8\n"                                                \
            "pop %rcx\n.cfi_adjust_cfa_offset -8\n"                                               \
            "pop %rdx\n.cfi_adjust_cfa_offset -8\n"                                               \
            "pop %rsi\n.cfi_adjust_cfa_offset -8\n"                                               \
            "pop %rdi\n.cfi_adjust_cfa_offset -8\n"                                               \
            "jmp *%rax\n"                                                                         \
            ".cfi_endproc\n"                                                                      \
            ".size _Unwind_" #name ", . - _Unwind_" #name "\n"                                    \
            ".popsection\n");
FUNCTIONS(STUB)
