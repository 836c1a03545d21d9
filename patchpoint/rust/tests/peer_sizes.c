/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The sizes of the header's types, for the test in src/abi.rs. */
#include <patchpoint.h>

size_t peer_size(int type);
size_t peer_size(int type)
{
	switch (type) {
	case 0:
		return sizeof(struct patchpoint_key);
	case 1:
		return sizeof(struct patchpoint_txn);
	case 2:
		return sizeof(struct patchpoint_status);
	case 3:
		return sizeof(struct patchpoint_site_info);
	case 4:
		return sizeof(struct patchpoint_alternative);
	case 5:
		return sizeof(struct patchpoint_place);
	case 6:
		return sizeof(struct patchpoint_state);
	default:
		return sizeof(struct patchpoint_variants);
	}
}
