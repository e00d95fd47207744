# Writes `out`, a C++ file with the profiles `files` as texts, when CMake is configured.
function(terse_embed_profiles out)
  set(entries)
  foreach(file IN LISTS ARGN)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    get_filename_component(name ${file} NAME_WE)
    file(READ ${file} text)
    string(APPEND entries "    {\"${name}\", R\"toml(${text})toml\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT "#include \"policy/profile_file.h\"

namespace terse {

std::span<const KnownProfile> known_profiles() {
  static constexpr KnownProfile kProfiles[] = {
${entries}  };
  return kProfiles;
}

}  // namespace terse
")
endfunction()
