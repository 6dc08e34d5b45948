# The llama.cpp adapter, when llama.cpp is there: includes only <skymem/…> and <llama.h>. Who links it chooses how it
# is linked with libskymem.
# Its libraries find each other through their own relative rpath ($ORIGIN). They are copied to llama/ in
# the build folder, so that who may read that can run it, and installed to lib/skymem/.
if(NOT SKYMEM_LLAMA)
  return()
endif()
if(NOT EXISTS ${SKYMEM_LLAMA}/lib/libllama.so)
  message(FATAL_ERROR "SKYMEM_LLAMA=${SKYMEM_LLAMA}: no lib/libllama.so there; tools/get-llama prints a prefix that has it")
endif()

file(GLOB llama_sources CONFIGURE_DEPENDS integrations/llama.cpp/*.c)
file(GLOB llama_tests CONFIGURE_DEPENDS integrations/llama.cpp/*_test.c)
file(GLOB llama_fixtures CONFIGURE_DEPENDS integrations/llama.cpp/*_fixture.c)
list(REMOVE_ITEM llama_sources ${llama_tests} ${llama_fixtures} "")
if(NOT llama_sources)
  return()
endif()

set(lib ${CMAKE_BINARY_DIR}/llama)
file(COPY ${SKYMEM_LLAMA}/lib/ DESTINATION ${lib} FILES_MATCHING PATTERN "*.so*" PATTERN cmake EXCLUDE PATTERN pkgconfig EXCLUDE)
add_library(skymem_llama STATIC ${llama_sources})
target_include_directories(skymem_llama PUBLIC include integrations/llama.cpp)
target_include_directories(skymem_llama SYSTEM PUBLIC ${SKYMEM_LLAMA}/include)
target_link_libraries(skymem_llama PUBLIC ${lib}/libllama.so ${lib}/libggml.so ${lib}/libggml-base.so m)
target_compile_definitions(skymem_llama PUBLIC SKYMEM_WITH_LLAMA)
foreach(test ${llama_tests})
  sky_c_test(llama ${test} SOURCES ${llama_fixtures} LINK skymem_llama skymem_core PROPERTIES TIMEOUT 1800 COST 200)
endforeach()
