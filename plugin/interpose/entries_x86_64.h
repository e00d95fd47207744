/* The entries of entries.S for x86-64. At an entry r10 and r11 are free: no C function takes
 * arguments there. */

.macro begin name
    .globl \name
    .type \name, @function
    .p2align 4
\name:
entry_\name:
    .cfi_startproc
    endbr64
.endm

.macro end name
    .cfi_endproc
    .size \name, . - \name
.endm

/* Calls function(r11) with the arguments of the call under way kept, and jumps to the address that
 * it returns. */
.macro resolve_by function
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
    push %rdi
    push %rsi
    push %rdx
    push %rcx
    push %r8
    push %r9
    push %rax
    push %r10
    sub $128, %rsp
    movups %xmm0, (%rsp)
    movups %xmm1, 16(%rsp)
    movups %xmm2, 32(%rsp)
    movups %xmm3, 48(%rsp)
    movups %xmm4, 64(%rsp)
    movups %xmm5, 80(%rsp)
    movups %xmm6, 96(%rsp)
    movups %xmm7, 112(%rsp)
    mov %r11, %rdi
    call \function
    mov %rax, %r11
    movups (%rsp), %xmm0
    movups 16(%rsp), %xmm1
    movups 32(%rsp), %xmm2
    movups 48(%rsp), %xmm3
    movups 64(%rsp), %xmm4
    movups 80(%rsp), %xmm5
    movups 96(%rsp), %xmm6
    movups 112(%rsp), %xmm7
    add $128, %rsp
    pop %r10
    pop %rax
    pop %r9
    pop %r8
    pop %rcx
    pop %rdx
    pop %rsi
    pop %rdi
    pop %rbp
    .cfi_def_cfa %rsp, 8
    jmp *%r11
.endm

.macro load_slot name
    lea slot_\name(%rip), %r11
.endm

.macro jump_to target
    jmp \target
.endm

.macro jump_through slot
    jmp *\slot(%rip)
.endm

/* To NCCL's function when the return address lies in one of the two images, else to ours. While
 * NCCL's image is unknown, and its size -1, to enter_name, which finds it. The size is read before
 * the beginning; bind_entries() writes them the other way round. */
.macro branch_on_caller name
    mov terse_images+8(%rip), %r10
    mov (%rsp), %r11
    sub terse_images(%rip), %r11
    cmp %r10, %r11
    jb 1f
    mov (%rsp), %r11
    sub terse_images+16(%rip), %r11
    cmp terse_images+24(%rip), %r11
    jb 2f
    jmp terse_own_\name
1:  cmp $-1, %r10
    je enter_\name
2:  jmp *slot_\name(%rip)
.endm

/* To the function that comes after ours, once what was opened meanwhile has been looked at. */
.macro leave_by next
    cmpb $0, terse_unseen(%rip)
    je 9f
    lea \next(%rip), %r11
    jmp look
9:  jmp *\next(%rip)
.endm

/* dlsym(handle, name) for names that begin with nccl or pnccl, on a real handle: terse_dlsym(handle,
 * name, return address). All else jumps, so that libc sees the caller's return address: RTLD_NEXT
 * means "after the caller". */
begin dlsym
    test %rdi, %rdi             /* RTLD_DEFAULT */
    je 2f
    cmp $-1, %rdi               /* RTLD_NEXT */
    je 2f
    mov %rsi, %r11
    cmpb $'p', (%r11)
    jne 1f
    inc %r11
1:  cmpb $'n', (%r11)
    jne 2f
    cmpb $'c', 1(%r11)
    jne 2f
    cmpb $'c', 2(%r11)
    jne 2f
    cmpb $'l', 3(%r11)
    jne 2f
    mov (%rsp), %rdx
    jmp terse_dlsym
2:  leave_by next_dlsym
end dlsym

/* dlopen(file, mode) with RTLD_DEEPBIND: terse_note(file) first. It jumps, so that libc sees the
 * caller's return address: by it a library, and what that needs, is looked for. */
begin dlopen
    test %rdi, %rdi
    je 1f
    test $8, %esi               /* RTLD_DEEPBIND */
    je 1f
    mov %rdi, %r11
    jmp note
1:  leave_by next_dlopen
end dlopen

/* The function that comes after ours: libc's, unless another preloaded library has one, too. libc's
 * is found by its version, for it alone has one. Without C++, which a sanitizer may have
 * instrumented: the first calls come before it is ready. */
.macro find_next name
find_next_\name:
    .cfi_startproc
    endbr64
    push %rdi
    .cfi_adjust_cfa_offset 8
    push %rsi
    .cfi_adjust_cfa_offset 8
    sub $8, %rsp
    .cfi_adjust_cfa_offset 8
    xor %edi, %edi              /* RTLD_DEFAULT */
    lea name_of_\name(%rip), %rsi
    lea libc_version(%rip), %rdx
    call dlvsym@PLT
    mov %rax, next_\name(%rip)
    xor %edi, %edi
    lea name_of_dlsym(%rip), %rsi
    lea libc_version(%rip), %rdx
    call dlvsym@PLT
    mov $-1, %rdi               /* RTLD_NEXT */
    lea name_of_\name(%rip), %rsi
    call *%rax
    test %rax, %rax
    je 1f
    mov %rax, next_\name(%rip)
1:  mov next_\name(%rip), %rax
    add $8, %rsp
    .cfi_adjust_cfa_offset -8
    pop %rsi
    .cfi_adjust_cfa_offset -8
    pop %rdi
    .cfi_adjust_cfa_offset -8
    jmp *%rax
    .cfi_endproc
.endm

#define OLDEST_GLIBC "GLIBC_2.2.5"
