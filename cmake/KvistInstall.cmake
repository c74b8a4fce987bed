# The files of `cmake --install`: the program, its manual page and completions (printed by the program itself right
# after it is linked, so that they are never older than it), the examples, and units for systemd.
include(GNUInstallDirs)

set(generated "${CMAKE_BINARY_DIR}/generated")
set(KVIST_PROGRAM "${CMAKE_INSTALL_FULL_BINDIR}/kvist")
set(KVIST_SETTINGS "/etc/kvist")
set(KVIST_EXAMPLES "${CMAKE_INSTALL_FULL_DATADIR}/kvist/examples")
file(READ "${CMAKE_SOURCE_DIR}/packaging/systemd/hardening.conf" KVIST_HARDENING)
foreach(unit IN ITEMS kvist-gateway.service kvist-worker@.service)
  configure_file("${CMAKE_SOURCE_DIR}/packaging/systemd/${unit}.in" "${generated}/${unit}" @ONLY)
endforeach()

install(TARGETS kvist RUNTIME)
install(DIRECTORY "${CMAKE_SOURCE_DIR}/examples" DESTINATION "${CMAKE_INSTALL_DATADIR}/kvist")
install(FILES "${CMAKE_SOURCE_DIR}/LICENSE" "${CMAKE_SOURCE_DIR}/README.md" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(FILES "${generated}/kvist-gateway.service" "${generated}/kvist-worker@.service" DESTINATION "lib/systemd/system")

# A cross-compiled program cannot run here.
if(NOT CMAKE_CROSSCOMPILING)
  add_custom_command(TARGET kvist POST_BUILD
    COMMAND "${CMAKE_COMMAND}" "-DPROGRAM=$<TARGET_FILE:kvist>" "-DFOLDER=${generated}"
            -P "${CMAKE_SOURCE_DIR}/cmake/KvistPrintGenerated.cmake"
    VERBATIM)
  install(FILES "${generated}/kvist.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
  install(FILES "${generated}/bash" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME kvist)
  install(FILES "${generated}/zsh" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" RENAME _kvist)
  install(FILES "${generated}/fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d" RENAME kvist.fish)
endif()
