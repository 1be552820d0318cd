/*
 * fence_catalog.h
 *		OIDs of the extension's tables and sequence.
 */
#ifndef FENCE_CATALOG_H
#define FENCE_CATALOG_H

#include "lockfence.h"

typedef enum FenceCatalogObject
{
	FENCE_CATALOG_TABLE,
	FENCE_CATALOG_INDEX,
	FENCE_CATALOG_PREFIX,
	FENCE_CATALOG_PREFIX_INDEX,
	FENCE_CATALOG_SEQUENCE,
	FENCE_CATALOG_IDENTITY,
	FENCE_CATALOG_OPERATIONS,
	FENCE_CATALOG_OPERATIONS_INDEX,
	FENCE_CATALOG_COUNT
} FenceCatalogObject;

extern Oid	fence_catalog_oid(FenceCatalogObject object);

#endif							/* FENCE_CATALOG_H */
