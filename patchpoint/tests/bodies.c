/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Small functions, compiled in many ways (compile_matrix.sh). bodies_main.c says how each must be recognised. */
void body_nothing(void) {}
void body_nothing_of(long *a, int b) { (void)a, (void)b; }
long body_identity(long a) { return a; }
int body_identity_32(int a) { return a; }
void *body_identity_pointer(void *a) { return a; }
long body_second(long a, long b) { (void)a; return b; }
int body_zero(void) { return 0; }
int body_five(long a) { (void)a; return 5; }
int body_minus_one(void) { return -1; }
long body_big(void) { return 1L << 40; }
long body_plus_one(long a) { return a + 1; }
long body_widen(int a) { return a; }
long body_load(const long *a) { return *a; }
void body_store(int *a) { *a = 0; }
long body_sum(long a, long b) { return a + b; }
int body_conditional(int a) { return a ? 3 : 4; }
static long global;
long body_global(void) { return global; }
void body_set_global(long a) { global = a; }
long body_two_loads(const volatile long *a) { return *a + *a; }
double body_floating(double a) { return a; }
int body_not(int a) { return !a; }
long body_calls(long (*f)(void)) { return f() + 1; }
