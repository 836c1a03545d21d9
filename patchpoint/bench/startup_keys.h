/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The 200 keys of the programs that start with many sites: KEYS(X) is X(key_100) X(key_101) … X(key_299). */
#ifndef STARTUP_KEYS_H
#define STARTUP_KEYS_H

#define TEN(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) X(n##8) X(n##9)
#define HUNDRED(X, n) \
	TEN(X, n##0) TEN(X, n##1) TEN(X, n##2) TEN(X, n##3) TEN(X, n##4) TEN(X, n##5) TEN(X, n##6) TEN(X, n##7) TEN(X, n##8) TEN(X, n##9)
#define KEYS(X) HUNDRED(X, key_1) HUNDRED(X, key_2)

#endif
