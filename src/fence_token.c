/*
 * fence_token.c
 *		Mints tokens from the one sequence of the database.
 *
 * Rules: a token is minted while the resource's row is locked, so that number
 * order is grant order. It is handed out only after the WAL that keeps the
 * sequence from giving it again is on disk, even if the transaction is rolled
 * back or never ends; that record may be another backend's, since one covers
 * many values. It covers more than nextval() does by itself, so that few wait.
 *
 * A second sequence records under which identity tokens were last issued: a
 * hash of system identifier, database, timeline and sequence. A promoted
 * standby, a restore to a point in time, a dump restored anywhere and a copied
 * database all have another one. Then tokens may have been issued that this
 * database does not know of, and issuing jumps before it goes on. Sequences
 * keep both, since a row would be locked, and all issuing held up, until the
 * transaction that noticed has ended; replicas, dumps and copies carry them.
 *
 * Sequences are moved under an object lock in exclusive mode, and each mint
 * holds it in share mode while it takes its value: a move reads a sequence and
 * sets it in two steps, and a mint in between would be repeated.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/pg_class.h"
#include "commands/sequence.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/rel.h"

#include "fence_catalog.h"
#include "fence_token.h"

/*
 * Nobody can bring issuing to FENCE_EPOCH_LIMIT but by jumps, so that it never
 * comes here: between the two lie two million of them.
 */
#define LAST_EPOCH	(INT64CONST(1) << 62)

/*
 * Values that one WAL record covers, and how few may be left before the next
 * one is written: more than the 32 that a record of nextval() covers.
 */
#define LOG_AHEAD	1024
#define LOG_AGAIN	64

/* What a sequence holds, and the LSN that has to be on disk to keep it. */
typedef struct SequenceState
{
	int64		last_value;
	bool		is_called;
	int64		covered;		/* values after it that need no new record */
	XLogRecPtr	lsn;
} SequenceState;

/* The one row of a sequence, in the buffer that the caller has locked. */
static Form_pg_sequence_data
sequence_row(Buffer buffer)
{
	Page		page = BufferGetPage(buffer);
	ItemId		item = PageGetItemId(page, FirstOffsetNumber);
	HeapTupleHeader tuple = (HeapTupleHeader) PageGetItem(page, item);

	return (Form_pg_sequence_data) ((char *) tuple + tuple->t_hoff);
}

/* Read a sequence; NoLock if this transaction has it locked already. */
static SequenceState
read_sequence(Oid sequence, LOCKMODE lockmode)
{
	Relation	rel = relation_open(sequence, lockmode);
	Buffer		buffer = ReadBuffer(rel, 0);
	SequenceState state;
	Form_pg_sequence_data row;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	row = sequence_row(buffer);
	state.last_value = row->last_value;
	state.is_called = row->is_called;
	state.covered = row->log_cnt;
	state.lsn = PageGetLSN(BufferGetPage(buffer));
	UnlockReleaseBuffer(buffer);
	relation_close(rel, NoLock);
	return state;
}

/*
 * Cover the next values of a sequence that this transaction has locked with one
 * WAL record, as nextval() does: replaying it takes the sequence past them, while
 * here they are still to be given. The record is a copy of the page.
 */
static void
log_ahead(Oid sequence)
{
	Relation	rel = relation_open(sequence, NoLock);
	Buffer		buffer = ReadBuffer(rel, 0);
	Form_pg_sequence_data row;

	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	row = sequence_row(buffer);
	if (RelationNeedsWAL(rel) && row->is_called && row->log_cnt < LOG_AGAIN &&
		row->last_value <= PG_INT64_MAX - LOG_AHEAD)
	{
		START_CRIT_SECTION();
		MarkBufferDirty(buffer);
		row->last_value += LOG_AHEAD;
		row->log_cnt = 0;
		(void) log_newpage_buffer(buffer, true);
		row->last_value -= LOG_AHEAD;
		row->log_cnt = LOG_AHEAD;
		END_CRIT_SECTION();
	}
	UnlockReleaseBuffer(buffer);
	relation_close(rel, NoLock);
}

/*
 * Set a sequence, so that no crash can take it back to where it was before.
 * Callers of the SQL functions have no right on it.
 */
static void
set_sequence(Oid sequence, int64 value)
{
	Relation	rel = relation_open(sequence, AccessShareLock);
	Oid			user;
	int			context;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(rel->rd_rel->relowner,
						   context | SECURITY_LOCAL_USERID_CHANGE);
	DirectFunctionCall2(setval_oid, ObjectIdGetDatum(sequence),
						Int64GetDatum(value));
	SetUserIdAndSecContext(user, context);
	relation_close(rel, NoLock);
	XLogFlush(read_sequence(sequence, NoLock).lsn);
}

static void
lock_issuing(Oid sequence, LOCKMODE mode)
{
	LockDatabaseObject(RelationRelationId, sequence, 0, mode);
}

static void
unlock_issuing(Oid sequence, LOCKMODE mode)
{
	UnlockDatabaseObject(RelationRelationId, sequence, 0, mode);
}

/* Where tokens are issued now, as a positive number. */
static int64
current_identity(Oid sequence)
{
	struct
	{
		uint64		system;
		Oid			database;
		Oid			sequence;
		uint64		timeline;
	}			identity;

	identity.system = GetSystemIdentifier();
	identity.database = MyDatabaseId;
	identity.sequence = sequence;
	identity.timeline = GetWALInsertionTimeLine();
	return (int64) (hash_bytes_extended((const unsigned char *) &identity,
										sizeof(identity), 0) >> 2) + 1;
}

/* Move issuing past a number, under the exclusive lock. */
static void
move_issuing(Oid sequence, int64 past)
{
	if (past > LAST_EPOCH)
		ereport(ERROR,
				(errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED),
				 errmsg("cannot move the issuing of tokens to %lld", (long long) past),
				 errdetail("It can be moved to %lld at most.",
						   (long long) LAST_EPOCH)));
	set_sequence(sequence, past);
}

/* The last token that can have been issued, 0 before the first. */
static int64
last_issued(Oid sequence)
{
	SequenceState state = read_sequence(sequence, AccessShareLock);

	return state.is_called ? state.last_value : 0;
}

/*
 * The start of an epoch after a token; the sequence may be at its very end.
 * Copies that were made of one state, two standbys promoted one after the
 * other for instance, must not issue the same tokens: therefore by chance.
 */
static int64
epoch_after(int64 token)
{
	uint64		random;

	if (token > LAST_EPOCH)
		return PG_INT64_MAX;
	if (!pg_strong_random(&random, sizeof(random)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	return token + FENCE_EPOCH_JUMP + (int64) (random % (FENCE_EPOCH_JUMP / 2));
}

/*
 * Record the identity before the first token is issued under it. Tokens that
 * were issued before under another one may not all be known here.
 */
static void
check_identity(Oid sequence)
{
	Oid			recorder = fence_catalog_oid(FENCE_CATALOG_IDENTITY);
	int64		identity = current_identity(sequence);
	SequenceState recorded = read_sequence(recorder, AccessShareLock);
	int64		last;

	if (recorded.is_called && recorded.last_value == identity)
		return;

	lock_issuing(sequence, ExclusiveLock);
	recorded = read_sequence(recorder, NoLock);
	if (!recorded.is_called || recorded.last_value != identity)
	{
		last = last_issued(sequence);
		if (last != 0 || recorded.is_called)
			move_issuing(sequence, epoch_after(last));
		set_sequence(recorder, identity);
	}
	unlock_issuing(sequence, ExclusiveLock);
}

/* fence_token_report_behind: LF005, tokens of a resource would not rise */
void
fence_token_report_behind(int64 token, int64 fence)
{
	ereport(ERROR,
			(errcode(ERRCODE_LEASE_AUTHORITY_ERROR),
			 errmsg("token sequence is behind the fence"),
			 errdetail("The sequence gave %lld, and tokens of the resource are known up to %lld.",
					   (long long) token, (long long) fence),
			 errhint("An administrator can move issuing past it with fence_new_epoch.")));
}

/*
 * fence_token_mint
 *
 * Take the next token. The caller has locked the resource's row, and checks
 * that the token is greater. Raises the sequence's own error at its end.
 */
int64
fence_token_mint(void)
{
	Oid			sequence = fence_catalog_oid(FENCE_CATALOG_SEQUENCE);
	SequenceState state;
	int64		token;

	check_identity(sequence);

	lock_issuing(sequence, ShareLock);
	token = nextval_internal(sequence, false);
	unlock_issuing(sequence, ShareLock);

	/* The record made ahead is for later ones; this commit may flush it. */
	state = read_sequence(sequence, NoLock);
	if (state.covered < LOG_AGAIN)
		log_ahead(sequence);
	XLogFlush(state.lsn);
	return token;
}

/*
 * fence_token_advance
 *
 * Make every token minted from now on greater than "past", as far as it is not
 * already. The change stays if the transaction is rolled back, as with any
 * sequence.
 */
void
fence_token_advance(int64 past)
{
	Oid			sequence = fence_catalog_oid(FENCE_CATALOG_SEQUENCE);

	check_identity(sequence);
	lock_issuing(sequence, ExclusiveLock);
	if (last_issued(sequence) < past)
		move_issuing(sequence, past);
	unlock_issuing(sequence, ExclusiveLock);
}

/*
 * fence_token_new_epoch
 *
 * Move issuing far beyond all that may have been issued, and past "above".
 * Returns the first token that may be issued from now on.
 */
int64
fence_token_new_epoch(int64 above)
{
	Oid			sequence = fence_catalog_oid(FENCE_CATALOG_SEQUENCE);
	int64		past;

	if (above >= FENCE_EPOCH_LIMIT)
		ereport(ERROR,
				(errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED),
				 errmsg("cannot move the issuing of tokens to %lld", (long long) above),
				 errdetail("It can be moved to numbers below %lld.",
						   (long long) FENCE_EPOCH_LIMIT)));
	check_identity(sequence);
	lock_issuing(sequence, ExclusiveLock);
	past = Max(epoch_after(last_issued(sequence)), above);
	move_issuing(sequence, past);
	unlock_issuing(sequence, ExclusiveLock);
	return past + 1;
}
