/*
 * fence_target.h
 *		The tables that fence_protect and fence_unprotect work on.
 */
#ifndef FENCE_TARGET_H
#define FENCE_TARGET_H

#include "nodes/pg_list.h"
#include "storage/lockdefs.h"
#include "utils/relcache.h"
#include "utils/reltrigger.h"

#include "lockfence.h"

#define FENCE_GUARD_NAME		"zzz_lockfence"
#define FENCE_TRUNCATE_NAME		"zzz_lockfence_truncate"

extern Relation fence_target_open(Oid relid, LOCKMODE lockmode);
extern void fence_target_check_kind(Relation rel);
extern void fence_target_check_whole(Relation rel, Oid function);
extern List *fence_target_members(Relation rel, LOCKMODE lockmode);

extern Oid	fence_guard_function(Oid sibling);
extern Trigger *fence_guard_find(Relation rel, Oid function);

#endif							/* FENCE_TARGET_H */
