# `make install PREFIX=…`: programs, libraries, headers, examples, *.pc, man pages, completion for shells,
# scenarios, the license. `make uninstall` takes away what stands here.
# Nothing in what is installed names the prefix, so the tree may be moved.

set_target_properties(skymem_core skymem_sky PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
install(TARGETS skymem_codec skymem_sky skymem_codec_archive skymem_core_archive skymem_sky_archive
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
# -lskymem alone links what codec.h declares too: libskymem.so is a linker script that names both libraries.
install(TARGETS skymem_core LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_SKIP)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/linker/libskymem.so CONTENT
  "INPUT(libskymem.so.0 libskymem-codec.so.0)\n")
install(FILES ${CMAKE_BINARY_DIR}/linker/libskymem.so DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/skymem include/skymem-sky DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY scenarios/ DESTINATION ${CMAKE_INSTALL_DATADIR}/skymem/scenarios FILES_MATCHING PATTERN "*.yaml" PATTERN "*.txt")
install(DIRECTORY share/texts share/calibration DESTINATION ${CMAKE_INSTALL_DATADIR}/skymem)
install(FILES share/models.list DESTINATION ${CMAKE_INSTALL_DATADIR}/skymem)
install(PROGRAMS tools/get-model tools/fetch.sh DESTINATION ${CMAKE_INSTALL_DATADIR}/skymem/tools)

file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
# The conformance suite of tiers, for those who write one: an archive of the tests' own fixtures.
set(SKYMEM_PCS skymem-codec skymem skymem-sky)
if(CMOCKA_FOUND AND NOT SKYMEM_SANITIZE AND NOT SKYMEM_FUZZ)
  add_library(skymem_conformance STATIC src/tier/tier_fixture.c src/tier/tier_batch_fixture.c
    src/tier/tier_calls_fixture.c src/tier/driver/conformance_fixture.c)
  set_target_properties(skymem_conformance PROPERTIES OUTPUT_NAME skymem-conformance)
  target_include_directories(skymem_conformance PRIVATE include src)
  target_link_libraries(skymem_conformance PRIVATE PkgConfig::CMOCKA)
  install(TARGETS skymem_conformance ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  list(APPEND SKYMEM_PCS skymem-conformance)
endif()

foreach(pc ${SKYMEM_PCS})
  configure_file(${pc}.pc.in ${pc}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${pc}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
include(CMakePackageConfigHelpers)
set(cmake_package ${CMAKE_INSTALL_LIBDIR}/cmake/skymem)
file(RELATIVE_PATH cmake_prefix /${cmake_package} /)
configure_file(skymem-config.cmake.in skymem-config.cmake @ONLY)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/skymem-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/skymem-config.cmake ${CMAKE_BINARY_DIR}/skymem-config-version.cmake
  DESTINATION ${cmake_package})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR})

# A built program finds its libraries in its own folder, an installed one in lib/. CMake would end the rpath
# that it is going to replace in ':', an empty element: the working directory, where anybody may have put a
# library. So the built one is made long enough here, by "/." which changes nothing, and replaced in place.
function(sky_install_program program folder)
  file(RELATIVE_PATH to_lib /${folder} /${CMAKE_INSTALL_LIBDIR})
  set(rpath "$ORIGIN/${to_lib}:$ORIGIN/${to_lib}/skymem")
  string(LENGTH "${rpath}" rpath_length)
  string(REPEAT "/." ${rpath_length} same)
  set(build_rpath "$ORIGIN:$ORIGIN/llama${same}")
  string(REPLACE ":" ";" elements "${build_rpath}")
  set_target_properties(${program} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${elements}")
  install(TARGETS ${program} RUNTIME DESTINATION ${folder})
  install(CODE "file(RPATH_CHANGE FILE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}/${program}\"
    OLD_RPATH [[${build_rpath}]] NEW_RPATH [[${rpath}]])")
endfunction()
sky_install_program(skymem ${CMAKE_INSTALL_BINDIR})
sky_install_program(skymemd ${CMAKE_INSTALL_BINDIR})
sky_install_program(skymem-lab ${SKYMEM_LIBEXEC})

if(TARGET skymem_llama)
  install(DIRECTORY ${SKYMEM_LLAMA}/lib/ DESTINATION ${CMAKE_INSTALL_LIBDIR}/skymem FILES_MATCHING
    PATTERN "*.so*" PATTERN cmake EXCLUDE PATTERN pkgconfig EXCLUDE)
  install(FILES ${SKYMEM_LLAMA}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME LICENSE.llama.cpp OPTIONAL)
  install(TARGETS skymem_llama ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES integrations/llama.cpp/skymem_llama.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  configure_file(skymem-llama.pc.in skymem-llama.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/skymem-llama.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

# The program knows its own manual; running it under a sanitizer or from a cross build would not do.
if(TARGET skymem AND NOT SKYMEM_SANITIZE AND NOT SKYMEM_FUZZ)
  set(man ${CMAKE_BINARY_DIR}/man)
  add_custom_command(OUTPUT ${man}/skymem.1
    COMMAND ${CMAKE_SOURCE_DIR}/tools/manual ${man} ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:skymem>
    DEPENDS skymem ${CMAKE_SOURCE_DIR}/tools/manual VERBATIM)
  set(completion ${CMAKE_BINARY_DIR}/completion)
  add_custom_command(OUTPUT ${completion}/skymem.fish
    COMMAND ${CMAKE_SOURCE_DIR}/tools/completion ${completion} ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:skymem>
    DEPENDS skymem ${CMAKE_SOURCE_DIR}/tools/completion VERBATIM)
  add_custom_target(man ALL DEPENDS ${man}/skymem.1 ${completion}/skymem.fish)
  install(DIRECTORY ${man}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
  install(FILES ${completion}/skymem DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${completion}/_skymem DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${completion}/skymem.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
set(man3 ${CMAKE_BINARY_DIR}/man3)
file(GLOB headers CONFIGURE_DEPENDS include/*/*.h)
add_custom_command(OUTPUT ${man3}/skymem_cache.3
  COMMAND ${CMAKE_SOURCE_DIR}/tools/manual3 ${man3}
  DEPENDS ${headers} ${CMAKE_SOURCE_DIR}/tools/manual3 VERBATIM)
add_custom_target(man3 ALL DEPENDS ${man3}/skymem_cache.3)
install(DIRECTORY ${man3}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3 FILES_MATCHING PATTERN "*.3")
# share: of ~/.local a user's manager looks there alone
install(FILES share/systemd/skymemd.service share/systemd/skymemd.socket
  DESTINATION ${CMAKE_INSTALL_DATADIR}/systemd/user)
install(FILES share/man/skymemd.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
