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
#include "access/tableam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_proc.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/acl.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000
#error "lockfence needs PostgreSQL 15 or later"
#endif

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif
#if PG_VERSION_NUM >= 170000
#include "storage/dsm_registry.h"
#endif

/* 18 lets pg_get_loaded_modules() tell name and version. */
#if PG_VERSION_NUM >= 180000
#define LOCKFENCE_MODULE_MAGIC \
	PG_MODULE_MAGIC_EXT(.name = "lockfence", .version = LOCKFENCE_VERSION)
#else
#define LOCKFENCE_MODULE_MAGIC PG_MODULE_MAGIC
#endif

/* 18 added instrumentation and 19 flags, which only executor nodes use. */
static inline IndexScanDesc
index_beginscan_compat(Relation heap, Relation index, Snapshot snapshot,
					   int nkeys)
{
#if PG_VERSION_NUM >= 190000
	return index_beginscan(heap, index, snapshot, NULL, nkeys, 0, 0);
#elif PG_VERSION_NUM >= 180000
	return index_beginscan(heap, index, snapshot, NULL, nkeys, 0);
#else
	return index_beginscan(heap, index, snapshot, nkeys, 0);
#endif
}

/* 19 takes options; none are wanted. Does not wait for another's lock. */
static inline TM_Result
table_tuple_delete_compat(Relation rel, ItemPointer tid, CommandId cid,
						  Snapshot snapshot, TM_FailureData *failure)
{
#if PG_VERSION_NUM >= 190000
	return table_tuple_delete(rel, tid, cid, 0, snapshot, InvalidSnapshot,
							  false, failure);
#else
	return table_tuple_delete(rel, tid, cid, snapshot, InvalidSnapshot,
							  false, failure, false);
#endif
}

/* 16 replaced the checks of each object class by one function. */
static inline bool
may_execute_compat(Oid function, Oid roleid)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(ProcedureRelationId, function, roleid,
						   ACL_EXECUTE) == ACLCHECK_OK;
#else
	return pg_proc_aclcheck(function, roleid, ACL_EXECUTE) == ACLCHECK_OK;
#endif
}

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

/* The same for a right on a foreign server. */
static inline AclResult
foreign_server_aclcheck_compat(Oid serverid, Oid roleid, AclMode mode)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(ForeignServerRelationId, serverid, roleid, mode);
#else
	return pg_foreign_server_aclcheck(serverid, roleid, mode);
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

/*
 * Shared memory. From 17 on the server hands a named segment to whoever asks
 * for it first. Before, only a library that is preloaded can have some: it
 * asks in a hook and finds it in another. 19 passes an argument through to the
 * function that initialises the segment.
 */
#if PG_VERSION_NUM >= 170000
#define LOCKFENCE_NAMED_SEGMENTS true

#if PG_VERSION_NUM >= 190000
static inline void
init_segment_compat(void *segment, void *init)
{
	((void (*) (void *)) init) (segment);
}
#endif

static inline void *
named_segment_compat(const char *name, Size size, void (*init) (void *))
{
	bool		found;

#if PG_VERSION_NUM >= 190000
	return GetNamedDSMSegment(name, size, init_segment_compat, &found,
							  (void *) init);
#else
	return GetNamedDSMSegment(name, size, init, &found);
#endif
}

static inline void
hook_shared_compat(void (*request) (void), void (**previous_request) (void),
				   void (*startup) (void), void (**previous_startup) (void))
{
}

static inline void
request_shared_compat(Size size)
{
}

static inline void *
struct_shared_compat(const char *name, Size size, void (*init) (void *))
{
	return NULL;
}

#else							/* before 17 */
#define LOCKFENCE_NAMED_SEGMENTS false

static inline void *
named_segment_compat(const char *name, Size size, void (*init) (void *))
{
	return NULL;
}

static inline void
hook_shared_compat(void (*request) (void), void (**previous_request) (void),
				   void (*startup) (void), void (**previous_startup) (void))
{
	*previous_request = shmem_request_hook;
	shmem_request_hook = request;
	*previous_startup = shmem_startup_hook;
	shmem_startup_hook = startup;
}

static inline void
request_shared_compat(Size size)
{
	RequestAddinShmemSpace(size);
}

static inline void *
struct_shared_compat(const char *name, Size size, void (*init) (void *))
{
	void	   *result;
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	result = ShmemInitStruct(name, size, &found);
	if (!found)
		init(result);
	LWLockRelease(AddinShmemInitLock);
	return result;
}
#endif

/* 19 gives a tranche its name when it is made, for all backends. */
static inline int
new_tranche_compat(const char *name)
{
#if PG_VERSION_NUM >= 190000
	return LWLockNewTrancheId(name);
#else
	return LWLockNewTrancheId();
#endif
}

static inline void
register_tranche_compat(int tranche, const char *name)
{
#if PG_VERSION_NUM < 190000
	LWLockRegisterTranche(tranche, name);
#endif
}

static inline uint32
wait_event_redis_connect_compat(void)
{
#if PG_VERSION_NUM >= 170000
	static uint32 event = 0;

	if (event == 0)
		event = WaitEventExtensionNew("LockfenceRedisConnect");
	return event;
#else
	return PG_WAIT_EXTENSION;
#endif
}

static inline uint32
wait_event_redis_reply_compat(void)
{
#if PG_VERSION_NUM >= 170000
	static uint32 event = 0;

	if (event == 0)
		event = WaitEventExtensionNew("LockfenceRedisReply");
	return event;
#else
	return PG_WAIT_EXTENSION;
#endif
}

#endif							/* LOCKFENCE_COMPAT_H */
