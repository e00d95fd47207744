# CMAKE_CUDA_ARCHITECTURES, where nobody has said it. TERSE_GPUS lists kinds, as 80;90: those of them
# that this nvcc knows, and of the last one PTX, too, for newer ones. Without it, quick to build: the
# GPUs of this machine, or one kind where there are none.
set(TERSE_GPU_HERE OFF)
execute_process(COMMAND nvidia-smi --list-gpus RESULT_VARIABLE status OUTPUT_VARIABLE gpus
                ERROR_QUIET)
if(status EQUAL 0 AND gpus MATCHES "^GPU ")
  set(TERSE_GPU_HERE ON)
endif()

set(TERSE_QUICK_GPUS OFF)
if(DEFINED CMAKE_CUDA_ARCHITECTURES)
  return()
endif()

if(TERSE_GPUS)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE known
                  COMMAND_ERROR_IS_FATAL ANY)
  set(CMAKE_CUDA_ARCHITECTURES)
  foreach(gpu IN LISTS TERSE_GPUS)
    if(known MATCHES "compute_${gpu}[^0-9]")
      list(APPEND CMAKE_CUDA_ARCHITECTURES ${gpu}-real)
    else()
      message(STATUS "sm_${gpu} is left out: ${CMAKE_CUDA_COMPILER} does not know it")
    endif()
  endforeach()
  list(TRANSFORM CMAKE_CUDA_ARCHITECTURES REPLACE "-real" "" AT -1)
  return()
endif()

set(TERSE_QUICK_GPUS ON)
set(CMAKE_CUDA_ARCHITECTURES 90)
if(TERSE_GPU_HERE AND CMAKE_VERSION VERSION_GREATER_EQUAL 3.24)
  set(CMAKE_CUDA_ARCHITECTURES native)
elseif(TERSE_GPU_HERE)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE kinds ERROR_QUIET)
  string(REGEX MATCHALL "[0-9]+\\.[0-9]+" kinds "${kinds}")
  list(REMOVE_DUPLICATES kinds)
  string(REPLACE "." "" kinds "${kinds}")
  if(kinds)
    set(CMAKE_CUDA_ARCHITECTURES ${kinds})
  endif()
endif()
