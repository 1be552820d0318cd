/*
 * fence_token.c
 *		Mints tokens from the one sequence of the database.
 *
 * Rules: a token is minted while the resource's row is locked, so that number
 * order is grant order. It is handed out only after the WAL that keeps the
 * sequence from giving it again is on disk, even if the transaction is rolled
 * back or never ends; that record may be another backend's, since one covers
 * many values.
 *
 * The sequence is moved forward under an object lock in exclusive mode, and
 * each mint holds it in share mode while it takes its value: a move reads the
 * sequence and sets it in two steps, and a mint in between would be repeated.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/rel.h"

#include "fence_catalog.h"
#include "fence_token.h"

/* Make sure that no crash can make the sequence give out a token again. */
static void
flush_sequence(Oid sequence)
{
	Relation	rel = relation_open(sequence, AccessShareLock);
	Buffer		buffer = ReadBuffer(rel, 0);
	XLogRecPtr	lsn = BufferGetLSNAtomic(buffer);

	ReleaseBuffer(buffer);
	relation_close(rel, NoLock);
	XLogFlush(lsn);
}

/*
 * fence_token_mint
 *
 * Take the next token. The caller has locked the resource's row, whose token
 * is "above" (0 if there is none). Raises the sequence's own error at its end,
 * and LF005 if the sequence is behind the fence.
 */
int64
fence_token_mint(int64 above)
{
	Oid			sequence = fence_catalog_oid(FENCE_CATALOG_SEQUENCE);
	int64		token;

	LockDatabaseObject(RelationRelationId, sequence, 0, ShareLock);
	token = nextval_internal(sequence, false);
	UnlockDatabaseObject(RelationRelationId, sequence, 0, ShareLock);

	if (token <= above)
		ereport(ERROR,
				(errcode(ERRCODE_LEASE_AUTHORITY_ERROR),
				 errmsg("token sequence is behind the fence"),
				 errdetail("The sequence gave %lld, and the fence of the resource is %lld.",
						   (long long) token, (long long) above)));

	flush_sequence(sequence);
	return token;
}

/*
 * fence_token_advance
 *
 * Make every token minted from now on greater than "past". The change stays
 * if the transaction is rolled back, as with any sequence.
 */
void
fence_token_advance(int64 past)
{
	Oid			sequence = fence_catalog_oid(FENCE_CATALOG_SEQUENCE);
	int64		current;

	LockDatabaseObject(RelationRelationId, sequence, 0, ExclusiveLock);
	current = nextval_internal(sequence, false);
	if (current < past)
	{
		Relation	rel = relation_open(sequence, AccessShareLock);
		Oid			user;
		int			context;

		/* Callers have no right on the sequence itself. */
		GetUserIdAndSecContext(&user, &context);
		SetUserIdAndSecContext(rel->rd_rel->relowner,
							   context | SECURITY_LOCAL_USERID_CHANGE);
		DirectFunctionCall2(setval_oid, ObjectIdGetDatum(sequence),
							Int64GetDatum(past));
		SetUserIdAndSecContext(user, context);
		relation_close(rel, NoLock);
	}
	UnlockDatabaseObject(RelationRelationId, sequence, 0, ExclusiveLock);
	flush_sequence(sequence);
}
