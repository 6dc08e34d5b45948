/* Symmetric matrices: their eigenvectors by Jacobi's method (plain, and exact to the last bits,
 * which matters more here than speed), and the weighted KLT made of them. */
#include "calibrate.h"

#ifdef SKYMEM_WITH_LLAMA

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SWEEPS_MAX 30

/* Rows p and q of v are turned by the angle with cosine c and sine s. */
static void turn_rows(double *v, size_t n, size_t p, size_t q, double c, double s) {
    double *a = v + p * n, *b = v + q * n;
    for (size_t i = 0; i < n; i++) {
        double x = a[i], y = b[i];
        a[i] = c * x - s * y;
        b[i] = s * x + c * y;
    }
}

static void turn_columns(double *a, size_t n, size_t p, size_t q, double c, double s) {
    for (size_t i = 0; i < n; i++) {
        double x = a[i * n + p], y = a[i * n + q];
        a[i * n + p] = c * x - s * y;
        a[i * n + q] = s * x + c * y;
    }
}

/* a becomes diagonal; row i of v is the eigenvector of a[i, i]. */
static void matrix_eigen(size_t n, double *a, double *v) {
    double total = 0;
    for (size_t i = 0; i < n * n; i++) {
        v[i] = i % (n + 1) == 0;
        total += a[i] * a[i];
    }
    for (int sweep = 0; sweep < SWEEPS_MAX; sweep++) {
        double off = 0;
        for (size_t p = 0; p < n; p++)
            for (size_t q = p + 1; q < n; q++)
                off += a[p * n + q] * a[p * n + q];
        if (off <= 1e-20 * total)
            return;
        double least = 1e-2 * sqrt(off) / (double)(n * n);
        for (size_t p = 0; p < n; p++) {
            for (size_t q = p + 1; q < n; q++) {
                double apq = a[p * n + q];
                if (fabs(apq) <= least)
                    continue;
                double theta = (a[q * n + q] - a[p * n + p]) / (2 * apq);
                double t = copysign(1, theta) / (fabs(theta) + sqrt(theta * theta + 1));
                double c = 1 / sqrt(t * t + 1), s = t * c;
                turn_rows(a, n, p, q, c, s);
                turn_columns(a, n, p, q, c, s);
                turn_rows(v, n, p, q, c, s);
            }
        }
    }
}

/* out = aᵀ diag(d) b */
static void matrix_sandwich(size_t n, const double *a, const double *d, const double *b,
                            double *out) {
    memset(out, 0, n * n * sizeof *out);
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < n; i++) {
            double x = a[k * n + i] * d[k];
            for (size_t j = 0; j < n; j++)
                out[i * n + j] += x * b[k * n + j];
        }
}

/* out = a b */
static void matrix_multiply(size_t n, const double *a, const double *b, double *out) {
    memset(out, 0, n * n * sizeof *out);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            for (size_t j = 0; j < n; j++)
                out[i * n + j] += a[i * n + k] * b[k * n + j];
}

/* With W = Vᵀ e V, S = W^½: the eigenvectors U of S C S give F = S U, G = Uᵀ S⁻¹. Weights that are
 * almost nothing are raised, or their channels would be dropped whole. */
bool calibrate_weighted_klt(size_t n, const double *covariance, const double *weight, double *f,
                            double *g) {
    const double least = 1e-5;
    double *room = malloc((5 * n * n + 2 * n) * sizeof *room);
    if (!room)
        return false;
    double *a = room, *v = a + n * n, *s = v + n * n, *s_inverse = s + n * n;
    double *u = s_inverse + n * n, *root = u + n * n, *inverse = root + n;
    memcpy(a, weight, n * n * sizeof *a);
    matrix_eigen(n, a, v);
    for (size_t i = 0; i < n; i++) {
        root[i] = sqrt(fmax(a[i * n + i], least));
        inverse[i] = 1 / root[i];
    }
    matrix_sandwich(n, v, root, v, s);
    matrix_sandwich(n, v, inverse, v, s_inverse);
    matrix_multiply(n, s, covariance, v);
    matrix_multiply(n, v, s, a);
    matrix_eigen(n, a, u);
    matrix_multiply(n, u, s_inverse, g); /* rows of u are the eigenvectors: u is Uᵀ */
    matrix_multiply(n, u, s, a);         /* and (u s)ᵀ = s U, s being symmetric */
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            f[i * n + j] = a[j * n + i];
    free(room);
    return true;
}

#endif
