# The tarball and the Debian packages, which packaging/build makes of the preset `package`.

# The licences of what is linked in go with it.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION share/doc/terse RENAME copyright)
foreach(package libfmt-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev)
  if(EXISTS /usr/share/doc/${package}/copyright)
    install(FILES /usr/share/doc/${package}/copyright DESTINATION share/doc/terse RENAME ${package})
  endif()
endforeach()
# What the documents' commands read.
install(FILES ${PROJECT_SOURCE_DIR}/examples/policy.toml DESTINATION share/terse/examples)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/forecast DESTINATION share/terse/examples)
if(TERSE_BUILD_HOSTNCCL)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION share/doc/terse-hostnccl RENAME copyright
          COMPONENT hostnccl)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/pytorch DESTINATION share/terse/examples
          COMPONENT hostnccl USE_SOURCE_PERMISSIONS PATTERN __pycache__ EXCLUDE)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION share/doc/terse-dev RENAME copyright
        COMPONENT dev)
# Where Debian's Python looks: a link, in its package alone.
file(CREATE_LINK ../../terse/python/terse ${CMAKE_CURRENT_BINARY_DIR}/terse SYMBOLIC)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/terse DESTINATION lib/python3/dist-packages
        COMPONENT dist_packages EXCLUDE_FROM_ALL)

# For who reads them where they are installed, with the links between them.
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION share/doc/terse)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION share/doc/terse)
foreach(format codec report)
  install(FILES ${PROJECT_SOURCE_DIR}/src/${format}/FORMAT.md DESTINATION share/doc/terse/src/${format})
endforeach()

# What was built without CUDA says so in its name.
set(TERSE_PACKAGE_VERSION ${PROJECT_VERSION})
if(NOT TERSE_HAVE_CUDA)
  string(APPEND TERSE_PACKAGE_VERSION +cpu)
endif()
set(CPACK_PACKAGE_NAME terse)
set(CPACK_PACKAGE_VERSION ${TERSE_PACKAGE_VERSION})
set(CPACK_PACKAGE_VENDOR terse)
set(CPACK_PACKAGE_CONTACT "the terse project <maintainers@terse.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_OUTPUT_FILE_PREFIX ${PROJECT_SOURCE_DIR}/build/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_THREADS 0)

# Each package is a group of components.
set(terse_parts terse programs tune python dist_packages)
set(hostnccl_parts hostnccl)
set(dev_parts dev)
set(CPACK_COMPONENTS_ALL terse programs tune python dev)
if(TERSE_BUILD_HOSTNCCL)
  list(APPEND CPACK_COMPONENTS_ALL hostnccl)
endif()
if(NOT TERSE_BUILD_BENCH)
  list(REMOVE_ITEM CPACK_COMPONENTS_ALL programs tune)
endif()
# The tarball is one, of all of them; what only Debian has is added for it.
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_PACKAGE_FILE_NAME terse-${TERSE_PACKAGE_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_ARCHIVE_FILE_NAME ${CPACK_PACKAGE_FILE_NAME})
set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/package_kinds.cmake)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(glibc "libc6 (>= ${TERSE_GLIBC}), libgcc-s1 | libgcc1")
set(CPACK_DEBIAN_TERSE_PACKAGE_NAME terse)
set(CPACK_DEBIAN_TERSE_PACKAGE_DEPENDS "${glibc}")
set(CPACK_DEBIAN_TERSE_PACKAGE_RECOMMENDS "terse-hostnccl | libnccl2, python3")
set(CPACK_DEBIAN_TERSE_PACKAGE_CONTROL_EXTRA
    ${PROJECT_SOURCE_DIR}/packaging/debian/prerm)
set(CPACK_DEBIAN_HOSTNCCL_PACKAGE_NAME terse-hostnccl)
set(CPACK_DEBIAN_HOSTNCCL_PACKAGE_DEPENDS "${glibc}, libucx0 (>= 1.12)")
set(CPACK_DEBIAN_HOSTNCCL_PACKAGE_RECOMMENDS "terse (= ${TERSE_PACKAGE_VERSION})")
set(CPACK_DEBIAN_HOSTNCCL_PACKAGE_CONTROL_EXTRA
    ${PROJECT_SOURCE_DIR}/packaging/debian/prerm)
set(CPACK_DEBIAN_DEV_PACKAGE_NAME terse-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "terse (= ${TERSE_PACKAGE_VERSION})")

include(CPack)
cpack_add_component_group(terse DESCRIPTION
  "The libraries, the command terse, the benchmarks and the Python module: NCCL's collectives, quantized.")
cpack_add_component_group(hostnccl DESCRIPTION
  "NCCL's interface over host memory and UCX, to try terse and to test where there is no GPU.")
cpack_add_component_group(dev DESCRIPTION "The header, for CMake and pkg-config, of libterse.so.")
foreach(group terse hostnccl dev)
  foreach(part IN LISTS ${group}_parts)
    cpack_add_component(${part} GROUP ${group})
  endforeach()
endforeach()

# All that is in a package: packaging/build needs no other target.
set(installed terse terse_nccl terse_cli terse_facade terse_said)
if(TERSE_BUILD_BENCH)
  get_property(programs DIRECTORY ${PROJECT_SOURCE_DIR}/bench/perf PROPERTY BUILDSYSTEM_TARGETS)
  list(APPEND installed ${programs})
endif()
if(TERSE_BUILD_HOSTNCCL)
  list(APPEND installed hostnccl)
endif()
if(TERSE_HAVE_CUDA)
  list(APPEND installed terse_cuda)
endif()
add_custom_target(installed DEPENDS ${installed})

# With what packaging/build has made, and a bare Debian to install it in.
if(TERSE_GLIBC)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(tests ${PROJECT_SOURCE_DIR}/tests/package)
  set(root ${PROJECT_SOURCE_DIR}/build/packaging/debian)
  add_test(NAME packages.debian COMMAND ${tests}/bare_debian ${root})
  add_test(NAME packages COMMAND Python3::Interpreter ${tests}/packages_test.py ${PROJECT_SOURCE_DIR} ${root})
  set_tests_properties(packages.debian PROPERTIES
    FIXTURES_SETUP debian LABELS packages TIMEOUT 1500)
  set_tests_properties(packages PROPERTIES FIXTURES_REQUIRED debian LABELS packages TIMEOUT 1500)
endif()
