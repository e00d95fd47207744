# Writes OUT, a C++ file with the commit of SOURCE, as terse is built, and with what is known before:
# COMPILER and CUDA_MODULE.
get_filename_component(above ${SOURCE} DIRECTORY)  # a repository around it is another
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env GIT_CEILING_DIRECTORIES=${above}
          git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  set(commit "not known")
endif()
# Only where it says something else.
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT "#include \"cli/build_facts.h\"

namespace terse::cli {

const BuildFacts kBuildFacts = {\"${commit}\", \"${COMPILER}\", \"${CUDA_MODULE}\"};

}  // namespace terse::cli
")
