/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Settings as keys of patchpoint, or (SETTINGS_PLAIN) as variables: the examples' sources are the same for both. */
#ifndef SETTINGS_H
#define SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef SETTINGS_PLAIN

#define SETTING_BRANCH(name, initial) static bool name = initial; \
	static int set_##name(bool value) { __atomic_store_n(&name, value, __ATOMIC_RELAXED); return 0; }
#define SETTING_VALUE(name, initial) static uint64_t name = initial; \
	static int set_##name(uint64_t value) { __atomic_store_n(&name, value, __ATOMIC_RELAXED); return 0; }
#define SETTING_SWITCH(name, ways) static unsigned name; \
	static int set_##name(unsigned way) { __atomic_store_n(&name, way, __ATOMIC_RELAXED); return 0; }
#define SETTING_CALL(name, initial, result, ...) static result (*name)(__VA_ARGS__) = initial; \
	static int set_##name(result (*function)(__VA_ARGS__)) { __atomic_store_n(&name, function, __ATOMIC_RELAXED); return 0; }
#define RARELY(name) __builtin_expect(__atomic_load_n(&name, __ATOMIC_RELAXED), false)
#define USUALLY(name) __builtin_expect(__atomic_load_n(&name, __ATOMIC_RELAXED), true)
#define NUMBER(name) __atomic_load_n(&name, __ATOMIC_RELAXED)
#define WAY(name) __atomic_load_n(&name, __ATOMIC_RELAXED)
#define CALL(name, ...) __atomic_load_n(&name, __ATOMIC_RELAXED)(__VA_ARGS__)

#else

#include <patchpoint.h>

#define SETTING_BRANCH(name, initial) PATCHPOINT_DECLARE_BRANCH(name); PATCHPOINT_DEFINE_BRANCH(name, initial); \
	static int set_##name(bool value) { return patchpoint_set_branch(name, value); }
#define SETTING_VALUE(name, initial) PATCHPOINT_DECLARE_VALUE(name, uint64_t); PATCHPOINT_DEFINE_VALUE(name, uint64_t, initial); \
	static int set_##name(uint64_t value) { return patchpoint_set_value(name, value); }
#define SETTING_SWITCH(name, ways) PATCHPOINT_DECLARE_SWITCH(name, ways); PATCHPOINT_DEFINE_SWITCH(name, ways, 0); \
	static int set_##name(unsigned way) { return patchpoint_set_switch(name, way); }
#define SETTING_CALL(name, initial, result, ...) PATCHPOINT_DECLARE_CALL(name, result, __VA_ARGS__); PATCHPOINT_DEFINE_CALL(name, initial); \
	static int set_##name(result (*function)(__VA_ARGS__)) { return patchpoint_set_call(name, function); }
#define RARELY(name) patchpoint_unlikely(name)
#define USUALLY(name) patchpoint_likely(name)
#define NUMBER(name) patchpoint_value(name)
#define WAY(name) patchpoint_switch(name)
#define CALL(name, ...) patchpoint_call(name, __VA_ARGS__)

#endif
#endif
