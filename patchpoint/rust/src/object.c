/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The program's or shared object's one entry in the registry; a C file of the same object that defines a key shares it. */
#include <patchpoint.h>

PATCHPOINT__OBJECT

/* Rust refers to this function, so that the linker takes this file out of its archive. */
void patchpoint_object_of_rust(void);
void patchpoint_object_of_rust(void)
{
}
