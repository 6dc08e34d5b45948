/* The set of NEON kernels, which every arm64 has. */
#include "codec/kernels_neon.h"

#define KERNELS             sky__kernels_neon
#define NAME                "neon"
#define TABLES_BYTES        SKY_VECTOR_TABLES_BYTES
#define sky__decode_prepare sky__decode_prepare_neon
#define sky__row_decode     sky__row_decode_neon
#include "codec/kernels_set.h"
