# The files of `cmake --install`: the program, its manual page and completions (printed by the program itself right
# after it is linked, so that they are never older than it), the examples, and units for systemd.
include(GNUInstallDirs)

set(generated "${CMAKE_BINARY_DIR}/generated")

install(TARGETS kvist RUNTIME)
install(DIRECTORY "${CMAKE_SOURCE_DIR}/examples" DESTINATION "${CMAKE_INSTALL_DATADIR}/kvist")
install(FILES "${CMAKE_SOURCE_DIR}/LICENSE" "${CMAKE_SOURCE_DIR}/README.md" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(CODE "
  set(KVIST_PACKAGING \"${CMAKE_SOURCE_DIR}/packaging\")
  set(KVIST_GENERATED \"${generated}\")
  set(KVIST_BINDIR \"${CMAKE_INSTALL_BINDIR}\")
  set(KVIST_DATADIR \"${CMAKE_INSTALL_DATADIR}\")")
install(SCRIPT "${CMAKE_SOURCE_DIR}/cmake/KvistInstallUnits.cmake")

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
