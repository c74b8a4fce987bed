# Runs at installation, because only then it is certain where to: `cmake --install --prefix` may name another place than
# the configuration did, and a unit names the program by its path.
set(KVIST_SETTINGS "/etc/kvist")
cmake_path(ABSOLUTE_PATH KVIST_BINDIR BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" OUTPUT_VARIABLE programs)
cmake_path(ABSOLUTE_PATH KVIST_DATADIR BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" OUTPUT_VARIABLE data)
set(KVIST_PROGRAM "${programs}/kvist")
set(KVIST_EXAMPLES "${data}/kvist/examples")
file(READ "${KVIST_PACKAGING}/systemd/hardening.conf" KVIST_HARDENING)
foreach(unit IN ITEMS kvist-gateway.service kvist-worker@.service)
  configure_file("${KVIST_PACKAGING}/systemd/${unit}.in" "${KVIST_GENERATED}/${unit}" @ONLY)
  file(INSTALL DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/systemd/system" TYPE FILE FILES "${KVIST_GENERATED}/${unit}")
endforeach()
