# cmake -DPROGRAM=kvist -DFOLDER=... -P: has the program print its manual page and completions into a folder.
file(MAKE_DIRECTORY "${FOLDER}")
execute_process(COMMAND "${PROGRAM}" man OUTPUT_FILE "${FOLDER}/kvist.1" COMMAND_ERROR_IS_FATAL ANY)
foreach(shell IN ITEMS bash zsh fish)
  execute_process(COMMAND "${PROGRAM}" completion ${shell} OUTPUT_FILE "${FOLDER}/${shell}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
