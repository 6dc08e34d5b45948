# One way to register a test. Every test runs in the source folder, finds the build in SKYMEM_BUILD,
# and exits 77 to say that it was skipped.
#
# tools/test runs several at once: most of a test's time is waiting. So a test may not count on a core of its own,
# on a name in /tmp or on a port that it did not ask tools/free-ports for. Models compute with one
# thread. PROCESSORS: 2 of the 4 places that a core has, 1 for those that wait nearly all the time. COST: the longest
# begin first. A TIMEOUT only ends a test that hangs.

# These take longest, and begin in this order: one that began last would run alone at the end.
set(sky_longest
    cli/demo_test integration/python_test cli/prefill_test cli/constellation_kills_test cli/constellation_restart_test
    llama/llama_test llama/full_attention_test cli/run_test cli/bench_test cli/constellation_stall_test
    manager/load_paced_test lab/sim/swarm_test tier/disk/crash_test)

# These wait nearly all the time, and so do those with satellites.
set(sky_waiting manager/load_many_test manager/load_paced_test manager/sequence_test tier/disk/crash_test)

function(sky_register name)
  set(places 2)
  if(name IN_LIST sky_waiting OR name MATCHES "^cli/(constellation|proxy)_")
    set(places 1)
  endif()
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 ENVIRONMENT "SKYMEM_BUILD=${CMAKE_BINARY_DIR}"
    PROCESSORS ${places} ${ARGN})
  list(FIND sky_longest ${name} place)
  if(NOT place EQUAL -1)
    math(EXPR cost "1000 - ${place}")
    set_tests_properties(${name} PROPERTIES COST ${cost})
  endif()
  if(SKYMEM_SANITIZE)  # ten to thirty times as long
    set_tests_properties(${name} PROPERTIES TIMEOUT 6000)
  endif()
endfunction()

# sky_c_test(GROUP FILE [SOURCES ...] [LINK ...] [PROPERTIES ...]): program GROUP-STEM, with _ for each / of the
# group, and test GROUP/STEM.
function(sky_c_test group file)
  cmake_parse_arguments(T "" "" "SOURCES;LINK;PROPERTIES" ${ARGN})
  if(NOT CMOCKA_FOUND)
    return()
  endif()
  get_filename_component(stem ${file} NAME_WE)
  string(REPLACE "/" "_" program ${group}-${stem})
  add_executable(${program} ${file} ${T_SOURCES})
  target_link_libraries(${program} PRIVATE ${T_LINK} PkgConfig::CMOCKA)
  add_test(NAME ${group}/${stem} COMMAND ${program} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  sky_register(${group}/${stem} TIMEOUT 1200 ${T_PROPERTIES})
endfunction()

# What the tests of a module share: library sky_MODULE_fixtures, with those of the modules it needs.
function(sky_fixtures module sources needs)
  if(sources AND CMOCKA_FOUND)
    add_library(sky_${module}_fixtures STATIC EXCLUDE_FROM_ALL ${sources})
    target_link_libraries(sky_${module}_fixtures PUBLIC sky_${module}_static PkgConfig::CMOCKA)
    set(kind PUBLIC)
  else()
    add_library(sky_${module}_fixtures INTERFACE)
    set(kind INTERFACE)
  endif()
  foreach(need ${needs})
    if(TARGET sky_${need}_fixtures)
      target_link_libraries(sky_${module}_fixtures ${kind} sky_${need}_fixtures)
    endif()
  endforeach()
endfunction()

# tests/GROUP/STEM.sh: test GROUP/STEM.
function(sky_shell_test file)
  if(CMAKE_CROSSCOMPILING)  # it starts programs by their names
    return()
  endif()
  get_filename_component(stem ${file} NAME_WE)
  get_filename_component(folder ${file} DIRECTORY)
  get_filename_component(group ${folder} NAME)
  add_test(NAME ${group}/${stem} COMMAND bash ${file} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set(properties TIMEOUT 1800 COST 100)
  if(stem MATCHES "^(transformers|vllm|lmcache|sglang)_")  # two real models and a calibration; engines
    set(properties TIMEOUT 3600 COST 200)
  elseif(stem MATCHES "^(constellation|proxy)_")  # for satellites
    set(properties TIMEOUT 1800 COST 200)
  endif()
  if(stem MATCHES "^(python|transformers|vllm|lmcache|sglang)_")  # the build folder has one wheel
    list(APPEND properties RESOURCE_LOCK wheel)
  endif()
  sky_register(${group}/${stem} ${properties})
endfunction()
