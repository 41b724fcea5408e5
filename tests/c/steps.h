/* SIGTRAP after each instruction of what lies between the two: its handler sees the library in
   every state that a signal can find it in. */
#ifndef STEPS_H
#define STEPS_H

#define STEPS_BEGIN() __asm__ volatile("pushfq; orl $0x100, (%%rsp); popfq" : : : "cc", "memory")
#define STEPS_END() __asm__ volatile("pushfq; andl $~0x100, (%%rsp); popfq" : : : "cc", "memory")

#endif
