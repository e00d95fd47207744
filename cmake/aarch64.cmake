# Toolchain of the preset `aarch64`: Debian's cross compiler and its packages of arm64. The kernel starts
# such programs by qemu (binfmt_misc), whoever starts them: CMake, ctest, a test or another program. So
# there is no CMAKE_CROSSCOMPILING_EMULATOR, by which tests would run this machine's Python, too.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
# Its wrappers are this machine's.
set(CMAKE_DISABLE_FIND_PACKAGE_MPI ON)
