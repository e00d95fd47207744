/* The entries of entries.S for 64-bit Arm. At an entry x9 to x17 are free. */

.macro begin name
    .globl \name
    .type \name, @function
    .p2align 4
\name:
entry_\name:
    .cfi_startproc
    hint #34                    /* bti c */
.endm

.macro end name
    .cfi_endproc
    .size \name, . - \name
.endm

/* Calls function(x16) with the arguments of the call under way kept, and jumps to the address that
 * it returns. */
.macro resolve_by function
    stp x29, x30, [sp, #-224]!
    .cfi_def_cfa_offset 224
    .cfi_offset x29, -224
    .cfi_offset x30, -216
    mov x29, sp
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    str x8, [sp, #80]
    stp q0, q1, [sp, #96]
    stp q2, q3, [sp, #128]
    stp q4, q5, [sp, #160]
    stp q6, q7, [sp, #192]
    mov x0, x16
    bl \function
    mov x16, x0
    ldp x0, x1, [sp, #16]
    ldp x2, x3, [sp, #32]
    ldp x4, x5, [sp, #48]
    ldp x6, x7, [sp, #64]
    ldr x8, [sp, #80]
    ldp q0, q1, [sp, #96]
    ldp q2, q3, [sp, #128]
    ldp q4, q5, [sp, #160]
    ldp q6, q7, [sp, #192]
    ldp x29, x30, [sp], #224
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa_offset 0
    br x16
.endm

.macro load_slot name
    adrp x16, slot_\name
    add x16, x16, :lo12:slot_\name
.endm

.macro jump_to target
    b \target
.endm

/* What another thread has written before the slot is there for who jumps through it. */
.macro jump_through slot
    adrp x16, \slot
    add x16, x16, :lo12:\slot
    ldar x16, [x16]
    br x16
.endm

/* To NCCL's function when the return address lies in one of the two images, else to ours. While
 * NCCL's image is unknown, and its size -1, to enter_name, which finds it. The size is read before
 * the beginning; bind_entries() writes them the other way round. */
.macro branch_on_caller name
    adrp x16, terse_images
    add x16, x16, :lo12:terse_images
    add x17, x16, #8
    ldar x17, [x17]
    ldr x9, [x16]
    sub x9, x30, x9
    cmp x9, x17
    b.lo 1f
    ldp x9, x10, [x16, #16]
    sub x9, x30, x9
    cmp x9, x10
    b.lo 2f
    b terse_own_\name
1:  cmn x17, #1
    b.eq enter_\name
2:  jump_through slot_\name
.endm

/* To the function that comes after ours, once what was opened meanwhile has been looked at. */
.macro leave_by next
    adrp x16, terse_unseen
    ldrb w16, [x16, :lo12:terse_unseen]
    cbz w16, 9f
    adrp x16, \next
    add x16, x16, :lo12:\next
    b look
9:  jump_through \next
.endm

/* dlsym(handle, name) for names that begin with nccl or pnccl, on a real handle: terse_dlsym(handle,
 * name, return address). All else jumps, so that libc sees the caller's return address: RTLD_NEXT
 * means "after the caller". */
begin dlsym
    cbz x0, 2f                  /* RTLD_DEFAULT */
    cmn x0, #1                  /* RTLD_NEXT */
    b.eq 2f
    mov x10, x1
    ldrb w9, [x10]
    cmp w9, #'p'
    b.ne 1f
    add x10, x10, #1
1:  ldrb w9, [x10]
    cmp w9, #'n'
    b.ne 2f
    ldrb w9, [x10, #1]
    cmp w9, #'c'
    b.ne 2f
    ldrb w9, [x10, #2]
    cmp w9, #'c'
    b.ne 2f
    ldrb w9, [x10, #3]
    cmp w9, #'l'
    b.ne 2f
    mov x2, x30
    b terse_dlsym
2:  leave_by next_dlsym
end dlsym

/* dlopen(file, mode) with RTLD_DEEPBIND: terse_note(file) first. It jumps, so that libc sees the
 * caller's return address: by it a library, and what that needs, is looked for. */
begin dlopen
    cbz x0, 1f
    tbz w1, #3, 1f              /* RTLD_DEEPBIND */
    mov x16, x0
    b note
1:  leave_by next_dlopen
end dlopen

/* The function that comes after ours: libc's, unless another preloaded library has one, too. libc's
 * is found by its version, for it alone has one. Without C++, which a sanitizer may have
 * instrumented: the first calls come before it is ready. */
.macro find_next name
find_next_\name:
    .cfi_startproc
    hint #34
    stp x29, x30, [sp, #-32]!
    .cfi_def_cfa_offset 32
    .cfi_offset x29, -32
    .cfi_offset x30, -24
    mov x29, sp
    stp x0, x1, [sp, #16]
    mov x0, #0                  /* RTLD_DEFAULT */
    adrp x1, name_of_\name
    add x1, x1, :lo12:name_of_\name
    adrp x2, libc_version
    add x2, x2, :lo12:libc_version
    bl dlvsym
    adrp x9, next_\name
    str x0, [x9, :lo12:next_\name]
    mov x0, #0
    adrp x1, name_of_dlsym
    add x1, x1, :lo12:name_of_dlsym
    adrp x2, libc_version
    add x2, x2, :lo12:libc_version
    bl dlvsym
    mov x16, x0
    mov x0, #-1                 /* RTLD_NEXT */
    adrp x1, name_of_\name
    add x1, x1, :lo12:name_of_\name
    blr x16
    adrp x9, next_\name
    cbz x0, 1f
    str x0, [x9, :lo12:next_\name]
1:  ldr x16, [x9, :lo12:next_\name]
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #32
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa_offset 0
    br x16
    .cfi_endproc
.endm

#define OLDEST_GLIBC "GLIBC_2.17"
