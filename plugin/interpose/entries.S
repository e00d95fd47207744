/* What this library exports under NCCL's names, made of functions.inc: for each function a slot and
 * entries that jump, with the registers and the stack as the caller left them, so that they need
 * not know its arguments.
 *
 *   next   ncclName jumps to NCCL's function
 *   ours   ncclName jumps to terse_own_ncclName, our C++ function; to NCCL's when the caller is NCCL
 *          itself, which calls its own exports through the PLT, or this library
 *   both   pncclName always jumps to NCCL's: that is the name for those who stand between
 *
 * Slots lead to terse_bind (slots.cc) until NCCL is found; those of functions that it lacks do so
 * for ever. */

#if defined(__x86_64__)
#include "entries_x86_64.h"
#elif defined(__aarch64__)
#include "entries_aarch64.h"
#else
#error "the preload library is for x86-64 and 64-bit Arm"
#endif

    .hidden terse_bind, terse_enter, terse_dlsym, terse_note, terse_look
    .hidden terse_images, terse_slots, terse_slots_end, terse_next_dlopen, terse_unseen

bind:
    .cfi_startproc
    resolve_by terse_bind
    .cfi_endproc

enter:
    .cfi_startproc
    resolve_by terse_enter
    .cfi_endproc

note:
    .cfi_startproc
    resolve_by terse_note
    .cfi_endproc

look:
    .cfi_startproc
    resolve_by terse_look
    .cfi_endproc

find_next dlsym
find_next dlopen

/* struct Slot of slots.h */
.macro slot name, own
    .pushsection .data
slot_\name:
    .quad bind_\name            /* target */
    .quad entry_\name           /* entry: this library's, whoever else exports the name */
    .quad \own                  /* own */
    .popsection
bind_\name:
    load_slot \name
    jump_to bind
.endm

.macro alias name
begin p\name
    jump_through slot_\name
end p\name
.endm

.macro inner name
    slot \name, 0
begin \name
    jump_through slot_\name
end \name
.endm

.macro next name
    inner \name
    alias \name
.endm

.macro ours name
    .hidden terse_own_\name
    slot \name, terse_own_\name
enter_\name:
    load_slot \name
    jump_to enter
begin \name
    branch_on_caller \name
end \name
    alias \name
.endm

    .data
    .p2align 4
    .globl terse_images, terse_slots, terse_slots_end, terse_next_dlopen, terse_unseen
/* struct Image of slots.h, twice: NCCL's, everywhere until it is found, and ours. */
terse_images:
    .quad 0, -1
    .quad 0, 0
next_dlsym:
    .quad find_next_dlsym
terse_next_dlopen:
next_dlopen:
    .quad find_next_dlopen
terse_unseen:
    .quad 0
terse_slots:

    .text
#define NCCL_FUNCTION(name, whose, returns) whose name
#include "functions.inc"

    .data
terse_slots_end:

    .section .rodata
name_of_dlsym:
    .asciz "dlsym"
name_of_dlopen:
    .asciz "dlopen"
libc_version:
    .asciz OLDEST_GLIBC

    .section .note.GNU-stack, "", %progbits
