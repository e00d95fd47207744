# TERSE_SANITIZE: the sanitizers' options, by GCC or clang.

# What a library is linked with so that it names all that it needs.
set(TERSE_NO_UNDEFINED -Wl,--no-undefined)
# Sources that run rarely, or make others run, are to compile quickly; under a sanitizer so are the
# codec's and the kernels' loops, whose locals nothing refers to later.
set(TERSE_QUICK $<$<NOT:$<CONFIG:Debug>>:-O1>)
set(TERSE_LOOPS)
if(NOT TERSE_SANITIZE)
  return()
endif()

add_compile_options(-fsanitize=${TERSE_SANITIZE} -fno-omit-frame-pointer)
add_link_options(-fsanitize=${TERSE_SANITIZE})
set(TERSE_QUICK -O0)
if(TERSE_SANITIZE MATCHES undefined)
  add_compile_options(-fno-sanitize-recover=undefined)
  list(APPEND TERSE_LOOPS -fsanitize=alignment)
endif()
if(TERSE_SANITIZE MATCHES address)
  list(APPEND TERSE_LOOPS -fno-sanitize-address-use-after-scope)
  # Bad pointers, each access of which would be checked twice, are the address sanitizer's matter: a
  # quarter of the time to compile. How they are aligned matters to the codec and the kernels alone.
  if(TERSE_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize=null,object-size,vptr,pointer-overflow,alignment)
  endif()
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options(-Wno-maybe-uninitialized)  # sees what is not there in instrumented code
  return()
endif()
if(TERSE_SANITIZE MATCHES undefined)
  # A handle points to another structure inside a library than outside.
  add_compile_options(-fno-sanitize=function)
endif()
if(TERSE_SANITIZE MATCHES address)
  # The run-time as a library, as GCC has it: programs that have none load ours.
  execute_process(
    COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so
    OUTPUT_VARIABLE run_time OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  if(NOT IS_ABSOLUTE "${run_time}")  # it names what it does not find as it was asked
    message(FATAL_ERROR "${CMAKE_CXX_COMPILER} has no ${run_time}, which the address sanitizer needs: "
      "install the compiler's run-time library (Debian's package libclang-rt-dev)")
  endif()
  cmake_path(GET run_time PARENT_PATH run_time)
  add_link_options(-shared-libasan -Wl,-rpath,${run_time})
else()
  set(TERSE_NO_UNDEFINED)  # the run-time is the program's
endif()
