# With TERSE_GLIBC=2.28 what is built runs on glibc 2.28 and newer, and brings its libstdc++ along. The
# headers and the compiler stay the machine's; only the linker sees an older glibc: stubs, made of the
# machine's own (glibc/stubs.py).
# Neither Debian nor PyPI keeps a sysroot that old. PyPI's ziglang brings stubs of any glibc, which could
# replace stubs.py, but nothing else: GCC's own static libraries, which are linked in, take functions of
# glibc 2.32 to 2.36 (glibc/nonshared.c), and so do its start files (glibc/start.c).
set(TERSE_GLIBC "" CACHE STRING "Run on this version of glibc, and on newer ones: 2.28, or empty: the machine's")
if(NOT TERSE_GLIBC)
  return()
endif()
if(TERSE_SANITIZE)
  message(FATAL_ERROR "TERSE_GLIBC and TERSE_SANITIZE do not go together: a sanitizer is linked with the machine's glibc")
endif()
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$" OR NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  message(FATAL_ERROR "TERSE_GLIBC takes g++ on x86-64")
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)

set(here ${CMAKE_CURRENT_LIST_DIR}/glibc)
set(stubs ${PROJECT_BINARY_DIR}/glibc)
set(parts libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 ld-linux-x86-64.so.2)
file(MAKE_DIRECTORY ${stubs})
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             ${here}/stubs.py ${here}/nonshared.c ${here}/start.c)

function(terse_run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status ERROR_VARIABLE errors WORKING_DIRECTORY ${stubs})
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "TERSE_GLIBC: ${ARGN}\n${errors}")
  endif()
endfunction()

set(libraries)
foreach(part IN LISTS parts)
  execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=${part}
                  OUTPUT_VARIABLE library OUTPUT_STRIP_TRAILING_WHITESPACE)
  list(APPEND libraries ${library})
endforeach()
terse_run(${Python3_EXECUTABLE} ${here}/stubs.py ${TERSE_GLIBC} ${stubs} ${libraries})
foreach(part IN LISTS parts)
  string(REGEX REPLACE "\\.so.*" ".so" name ${part})
  terse_run(${CMAKE_C_COMPILER} -shared -nostdlib -o ${part} ${part}.s
            -Wl,-soname,${part} -Wl,--version-script=${part}.map)
  file(CREATE_LINK ${part} ${stubs}/${name} SYMBOLIC)
endforeach()
foreach(source start nonshared)
  terse_run(${CMAKE_C_COMPILER} -O2 -fPIC -fvisibility=hidden -Wall -Wextra -Werror -c ${here}/${source}.c)
endforeach()
terse_run(${CMAKE_AR} rcs libc_nonshared.a start.o nonshared.o)
# As glibc's own libc.so.
execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libc_nonshared.a
                OUTPUT_VARIABLE nonshared OUTPUT_STRIP_TRAILING_WHITESPACE)
file(REMOVE ${stubs}/libc.so)
file(WRITE ${stubs}/libc.so "GROUP(${stubs}/libc_nonshared.a ${stubs}/libc.so.6 ${nonshared} \
AS_NEEDED(${stubs}/ld-linux-x86-64.so.2))\n")

# The functions of threads and of dlopen are in libc since 2.34, and were in these before. What else is
# linked, as UCX, may be newer.
add_link_options("$<$<LINK_LANGUAGE:CXX,CUDA>:-L${stubs};-static-libstdc++;\
LINKER:--push-state,--no-as-needed;-lpthread;-ldl;-lrt;LINKER:--pop-state;\
LINKER:--no-undefined,--allow-shlib-undefined>")
