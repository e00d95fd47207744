# Every function of the list, to NCCLs that only record or lack most of them.
set(fakes ${CMAKE_CURRENT_BINARY_DIR}/fake)
add_library(fake_nccl SHARED fake/fake_nccl.cc)
add_library(old_nccl SHARED fake/old_nccl.c)
add_library(older_nccl SHARED fake/old_nccl.c)
target_compile_definitions(older_nccl PRIVATE BEFORE_LAST_ERROR)
# A wheel's folder, and something loaded from beside it.
add_library(beside_wheel SHARED fake/beside_wheel.c)
set_target_properties(fake_nccl old_nccl older_nccl PROPERTIES
  CXX_VISIBILITY_PRESET default C_VISIBILITY_PRESET default
  OUTPUT_NAME nccl SOVERSION 2)
set_target_properties(fake_nccl PROPERTIES LIBRARY_OUTPUT_DIRECTORY
  ${fakes}/site-packages/nvidia/nccl/lib)
set_target_properties(old_nccl PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${fakes}/old)
set_target_properties(older_nccl PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${fakes}/older)
set_target_properties(beside_wheel PROPERTIES LIBRARY_OUTPUT_DIRECTORY
  ${fakes}/site-packages/framework/lib)
# A framework that is linked with NCCL statically.
add_library(framework_with_nccl SHARED fake/old_nccl.c)
set_target_properties(framework_with_nccl PROPERTIES C_VISIBILITY_PRESET default
  OUTPUT_NAME framework NO_SONAME ON LIBRARY_OUTPUT_DIRECTORY ${fakes}/old)
target_include_directories(fake_nccl PRIVATE ${PROJECT_SOURCE_DIR}/plugin)

terse_test(interpose_linked SOURCES functions_test.cc LIBRARIES ${CMAKE_DL_LIBS})
target_link_libraries(interpose_linked PRIVATE -Wl,--no-as-needed fake_nccl)
terse_test(interpose_opening SOURCES functions_test.cc LIBRARIES ${CMAKE_DL_LIBS})
foreach(program interpose_linked interpose_opening)
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/plugin)
  add_dependencies(${program} terse_nccl fake_nccl old_nccl)
endforeach()

# functions_test.cc by PROGRAM, which gets at NCCL in a way named NAME.
function(terse_functions_test name program)
  foreach(part Functions Reentry)
    if(part STREQUAL Reentry)
      set(settings "TERSE_SCHEME=int8")
    else()  # with arguments that are no memory, which whoever compares settings would look into
      set(settings "TERSE_SCHEME=;TERSE_CUDA_MODULE=/nonexistent")
    endif()
    add_test(NAME interpose.${part}.${name} COMMAND ${program} --gtest_filter=${part}.*)
    set_tests_properties(interpose.${part}.${name} PROPERTIES ENVIRONMENT "${environment};${settings};SECOND_NCCL=${fakes}/old/libnccl.so.2;${ARGN}"
                         FAIL_REGULAR_EXPRESSION "Running 0 tests")
  endforeach()
endfunction()
set(fake_folder ${fakes}/site-packages/nvidia/nccl/lib)
terse_functions_test(linked interpose_linked)
terse_functions_test(by_name interpose_opening
  "FAKE_NCCL=libnccl.so.2;LD_LIBRARY_PATH=${fake_folder}")
terse_functions_test(by_path interpose_opening "FAKE_NCCL=${fake_folder}/libnccl.so.2")
terse_functions_test(by_setting interpose_opening
  "FAKE_NCCL=${fake_folder}/libnccl.so.2;TERSE_NCCL=${fake_folder}/libnccl.so.2")

add_library(other_dlsym SHARED fake/other_dlsym.c)
set_target_properties(other_dlsym PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${fakes})
target_link_libraries(other_dlsym PRIVATE ${CMAKE_DL_LIBS})
target_compile_options(other_dlsym PRIVATE -fno-sanitize=all)  # called before sanitizers are ready
add_dependencies(interpose_linked other_dlsym)
add_test(NAME interpose.other_dlsym COMMAND interpose_linked --gtest_filter=OtherDlsym.*)
set_tests_properties(interpose.other_dlsym PROPERTIES ENVIRONMENT
  "LD_PRELOAD=${preload}:$<TARGET_FILE:other_dlsym>;ASAN_OPTIONS=verify_asan_link_order=0"
  FAIL_REGULAR_EXPRESSION "Running 0 tests")

terse_test(interpose_old_nccl SOURCES old_nccl_test.cc LIBRARIES ${CMAKE_DL_LIBS})
add_dependencies(interpose_old_nccl terse_nccl old_nccl older_nccl fake_nccl)
add_test(NAME interpose.older_nccl COMMAND interpose_old_nccl --gtest_filter=*Lacks*:*CannotFail*)
set_tests_properties(interpose.older_nccl PROPERTIES
  ENVIRONMENT "${environment};TERSE_LOG=off;TERSE_NCCL=${fakes}/older/libnccl.so.2")
add_test(NAME interpose.old_nccl COMMAND interpose_old_nccl)
set_tests_properties(interpose.old_nccl PROPERTIES ENVIRONMENT "${environment};TERSE_LOG=off;TERSE_NCCL=${fakes}/old/libnccl.so.2;SECOND_NCCL=${fake_folder}/libnccl.so.2")

# In exit handlers, when the main thread's own objects are gone.
add_executable(interpose_late late.cc)
target_link_libraries(interpose_late PRIVATE ${CMAKE_DL_LIBS})
add_dependencies(interpose_late terse_nccl old_nccl)
add_test(NAME interpose.late COMMAND interpose_late)
set_tests_properties(interpose.late PROPERTIES ENVIRONMENT
  "${environment};TERSE_LOG=off;TERSE_NCCL=${fakes}/old/libnccl.so.2")

# The same of communicators and groups, on hostnccl. What a thread makes at its very end stays.
add_executable(interpose_after_main after_main.cc)
target_link_libraries(interpose_after_main PRIVATE hostnccl Threads::Threads)
add_dependencies(interpose_after_main terse_nccl)
foreach(scheme off int8)
  add_test(NAME interpose.after_main_${scheme} COMMAND interpose_after_main)
  set_tests_properties(interpose.after_main_${scheme} PROPERTIES ENVIRONMENT
    "${environment};ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0;TERSE_LOG=off;TERSE_MIN_BYTES=1;TERSE_SCHEME=${scheme}")
endforeach()

# Programs that have the library without knowing, and ones that change their environment.
add_executable(interpose_environment environment.cc)
target_link_libraries(interpose_environment PRIVATE hostnccl ${CMAKE_DL_LIBS} Threads::Threads)
add_dependencies(interpose_environment terse_nccl)
if(NOT TERSE_SANITIZE)  # whose run-time such programs would need before
  add_test(NAME interpose.bystanders
           COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/bystanders_test.py
                   $<TARGET_FILE:terse_nccl> $<TARGET_FILE:interpose_environment>)
endif()

# What programs link where hostnccl is not built; compiled here, as this build has hostnccl.
add_library(nccl_stub_compiles OBJECT ${PROJECT_SOURCE_DIR}/plugin/nccl_stub/stub.c)
target_include_directories(nccl_stub_compiles PRIVATE ${PROJECT_SOURCE_DIR}/plugin)

# A program with such an NCCL in it, whose symbols it shows.
add_library(old_nccl_inside OBJECT fake/old_nccl.c)
set_target_properties(old_nccl_inside PROPERTIES C_VISIBILITY_PRESET default
  POSITION_INDEPENDENT_CODE ON)
terse_test(interpose_own_nccl SOURCES own_nccl_test.cc LIBRARIES ${CMAKE_DL_LIBS})
target_sources(interpose_own_nccl PRIVATE $<TARGET_OBJECTS:old_nccl_inside>)
set_target_properties(interpose_own_nccl PROPERTIES ENABLE_EXPORTS ON)
add_dependencies(interpose_own_nccl terse_nccl)
add_test(NAME interpose.own_nccl COMMAND interpose_own_nccl)
set_tests_properties(interpose.own_nccl PROPERTIES TIMEOUT 60
  ENVIRONMENT "${environment};TERSE_LOG=off;TERSE_NCCL=")

terse_test(interpose_find SOURCES find_test.cc LIBRARIES terse_engine)
add_dependencies(interpose_find terse_nccl fake_nccl beside_wheel framework_with_nccl)
target_compile_definitions(interpose_find PRIVATE
  FAKES="${fakes}" PRELOAD="$<TARGET_FILE:terse_nccl>")
gtest_discover_tests(interpose_find TEST_PREFIX interpose.)

# An NCCL that frees what libc allocated, and a program that allocates by another library: a
# sanitizer's run-time is one itself.
add_library(freeing_nccl SHARED fake/old_nccl.c)
target_compile_definitions(freeing_nccl PRIVATE FREES_WHAT_LIBC_ALLOCATES)
set_target_properties(freeing_nccl PROPERTIES C_VISIBILITY_PRESET default
  OUTPUT_NAME nccl SOVERSION 2 LIBRARY_OUTPUT_DIRECTORY ${fakes}/freeing)
add_dependencies(interpose_find freeing_nccl)
if(NOT TERSE_SANITIZE)
  add_library(other_malloc SHARED fake/other_malloc.c)
  set_target_properties(other_malloc PROPERTIES C_VISIBILITY_PRESET default
    LIBRARY_OUTPUT_DIRECTORY ${fakes})
  # The compiler knows what malloc does, and would make a call of it out of what is written here.
  target_compile_options(other_malloc PRIVATE -fno-builtin)
  add_dependencies(interpose_find other_malloc)
  add_test(NAME interpose.other_malloc COMMAND interpose_find --gtest_filter=OtherMalloc.*)
  set_tests_properties(interpose.other_malloc PROPERTIES
    ENVIRONMENT "LD_PRELOAD=$<TARGET_FILE:other_malloc>"
    FAIL_REGULAR_EXPRESSION "Running 0 tests")
endif()

add_test(NAME interpose.exports
         COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/exports_test.py
                 $<TARGET_FILE:terse_nccl> ${PROJECT_SOURCE_DIR})

add_test(NAME interpose.check
         COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/check_test.py
                 $<TARGET_FILE:terse_cli> $<TARGET_FILE:interpose_rank>)

add_test(NAME interpose.ways_in
         COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/ways_in_test.py
                 ${PROJECT_BINARY_DIR})
