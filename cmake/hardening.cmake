# What makes a defect harder to use, in all that is built; tests/integration/hardening_test.sh looks for
# it in the binaries. A sanitizer brings its own checks of the library's calls, so FORTIFY stays out there.
include(CheckCCompilerFlag)
include(CheckPIESupported)
check_pie_supported()

add_compile_options(-fstack-protector-strong)
foreach(flag -fstack-clash-protection -fcf-protection)
  string(MAKE_C_IDENTIFIER "has${flag}" has)
  check_c_compiler_flag(${flag} ${has})
  if(${has})
    add_compile_options(${flag})
  endif()
endforeach()
if(NOT SKYMEM_SANITIZE AND NOT SKYMEM_FUZZ)
  # Level 3 computes the sizes of allocations at run time, inside the codec's loops too: its AVX-512 encoder took 1.6
  # times as long. Level 2 needs an optimiser, so not with -O0.
  add_compile_options($<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
endif()
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
