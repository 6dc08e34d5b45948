# What makes a defect harder to use, in all that is built; tests/integration/hardening_test.sh looks for
# it in the binaries. A sanitizer brings its own checks of the library's calls, so FORTIFY stays out there.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
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
  # Level 3 knows the sizes of allocations too. It needs an optimiser, so not with -O0.
  check_c_source_compiles("#if __has_builtin(__builtin_dynamic_object_size)
int main(void) { return 0; }
#else
#error
#endif" has_dynamic_object_size)
  if(has_dynamic_object_size)
    set(fortify 3)
  else()
    set(fortify 2)
  endif()
  add_compile_options($<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=${fortify}>)
endif()
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
