/*
 * compat.h
 *		Everything that differs between PostgreSQL versions.
 *
 * Rule: the only file with version conditionals. Each wrapper has the shape of
 * the newest server and the suffix _compat.
 */
#ifndef LOCKFENCE_COMPAT_H
#define LOCKFENCE_COMPAT_H

#include "postgres.h"

#include "access/genam.h"
#include "catalog/pg_class.h"
#include "utils/acl.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000
#error "lockfence needs PostgreSQL 15 or later"
#endif

/* 18 lets pg_get_loaded_modules() tell name and version. */
#if PG_VERSION_NUM >= 180000
#define LOCKFENCE_MODULE_MAGIC \
	PG_MODULE_MAGIC_EXT(.name = "lockfence", .version = LOCKFENCE_VERSION)
#else
#define LOCKFENCE_MODULE_MAGIC PG_MODULE_MAGIC
#endif

/* 18 added the instrumentation argument, which only executor nodes use. */
static inline IndexScanDesc
index_beginscan_compat(Relation heap, Relation index, Snapshot snapshot,
					   int nkeys)
{
#if PG_VERSION_NUM >= 180000
	return index_beginscan(heap, index, snapshot, NULL, nkeys, 0);
#else
	return index_beginscan(heap, index, snapshot, nkeys, 0);
#endif
}

/* 16 replaced the check of each object class by one function. */
static inline bool
object_ownercheck_compat(Oid classid, Oid objectid, Oid roleid)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(classid, objectid, roleid);
#else
	Assert(classid == RelationRelationId);
	return pg_class_ownercheck(objectid, roleid);
#endif
}

/* 17 lets extensions name their wait events. */
static inline uint32
wait_event_acquire_compat(void)
{
#if PG_VERSION_NUM >= 170000
	static uint32 event = 0;

	if (event == 0)
		event = WaitEventExtensionNew("LockfenceAcquire");
	return event;
#else
	return PG_WAIT_EXTENSION;
#endif
}

#endif							/* LOCKFENCE_COMPAT_H */
