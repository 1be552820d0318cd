/*
 * fence_catalog.c
 *		Finds the extension's tables and sequence, and remembers where.
 *
 * Rule: a remembered OID is dropped by any invalidation that could concern it,
 * so that DROP EXTENSION, a rolled back CREATE EXTENSION and a renamed schema
 * are noticed by a backend that was warm before.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "fence_catalog.h"

static const char *const object_names[FENCE_CATALOG_COUNT] = {
	[FENCE_CATALOG_TABLE] = "fence",
	[FENCE_CATALOG_INDEX] = "fence_pkey",
	[FENCE_CATALOG_PREFIX] = "prefix",
	[FENCE_CATALOG_PREFIX_INDEX] = "prefix_pkey",
	[FENCE_CATALOG_SEQUENCE] = "token",
	[FENCE_CATALOG_IDENTITY] = "identity",
	[FENCE_CATALOG_OPERATIONS] = "operations",
	[FENCE_CATALOG_OPERATIONS_INDEX] = "operations_pkey",
};

static Oid	known[FENCE_CATALOG_COUNT];
static bool callbacks_registered = false;

static void
forget_relation(Datum arg, Oid relid)
{
	for (int i = 0; i < FENCE_CATALOG_COUNT; i++)
		if (relid == InvalidOid || relid == known[i])
			known[i] = InvalidOid;
}

static void
forget_all(Datum arg, int cacheid, uint32 hashvalue)
{
	memset(known, 0, sizeof(known));
}

/*
 * fence_catalog_oid
 *
 * OID of one of the extension's relations; an error if it is not there.
 */
Oid
fence_catalog_oid(FenceCatalogObject object)
{
	Oid			schema;
	Oid			relid;

	if (OidIsValid(known[object]))
		return known[object];

	if (!callbacks_registered)
	{
		CacheRegisterRelcacheCallback(forget_relation, (Datum) 0);
		CacheRegisterSyscacheCallback(NAMESPACEOID, forget_all, (Datum) 0);
		callbacks_registered = true;
	}

	schema = get_namespace_oid(LOCKFENCE_SCHEMA, true);
	relid = OidIsValid(schema) ?
		get_relname_relid(object_names[object], schema) : InvalidOid;
	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("relation \"%s.%s\" does not exist",
						LOCKFENCE_SCHEMA, object_names[object]),
				 errhint("Create the extension in this database: CREATE EXTENSION lockfence.")));
	known[object] = relid;
	return relid;
}
