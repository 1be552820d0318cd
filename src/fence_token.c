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
 * hash of system identifier, database, timeline, and the sequence with its
 * file. A promoted standby, a restore to a point in time, a dump restored
 * anywhere, a copied database and a sequence that was written anew all have
 * another one. Then tokens may have been issued that this database does not
 * know of, or that no WAL record covers any more, and issuing jumps before it
 * goes on. Sequences keep both, since a row would be locked, and all issuing
 * held up, until the transaction that noticed has ended; replicas, dumps and
 * copies carry them.
 *
 * Whoever moves a sequence holds an object lock, so that one of those who
 * notice a change does it. Who mints holds none: issuing is moved in one step
 * on the page, and never back, so that no value is repeated that was taken
 * meanwhile. Pages are logged as a whole.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/pg_class.h"
#include "catalog/pg_sequence.h"
#include "commands/sequence.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "debug_point.h"
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
 * Write a sequence, in the buffer that the caller has locked exclusively, with
 * so many values after it covered, as nextval() does: replaying the record takes
 * the sequence past them, while here they are still to be given. Nobody sees the
 * page as it is logged.
 */
static void
write_sequence(Relation rel, Buffer buffer, int64 last_value, int64 covered)
{
	Form_pg_sequence_data row = sequence_row(buffer);

	if (!RelationNeedsWAL(rel))
		covered = 0;

	START_CRIT_SECTION();
	MarkBufferDirty(buffer);
	row->last_value = last_value + covered;
	row->is_called = true;
	row->log_cnt = 0;
	if (RelationNeedsWAL(rel))
		(void) log_newpage_buffer(buffer, true);
	row->last_value = last_value;
	row->log_cnt = covered;
	END_CRIT_SECTION();
}

/* Does a sequence go up by ones? An administrator may have altered it. */
static bool
counts_by_one(Oid sequence)
{
	HeapTuple	tuple = SearchSysCache1(SEQRELID, ObjectIdGetDatum(sequence));
	bool		result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for sequence %u", sequence);
	result = ((Form_pg_sequence) GETSTRUCT(tuple))->seqincrement == 1;
	ReleaseSysCache(tuple);
	return result;
}

/*
 * Cover the next values of a sequence that this transaction has locked. One that
 * counts otherwise is left to nextval().
 */
static void
log_ahead(Oid sequence)
{
	Relation	rel;
	Buffer		buffer;
	Form_pg_sequence_data row;

	if (!counts_by_one(sequence))
		return;
	rel = relation_open(sequence, NoLock);
	buffer = ReadBuffer(rel, 0);
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	row = sequence_row(buffer);
	if (row->is_called && row->log_cnt < LOG_AGAIN &&
		row->last_value <= PG_INT64_MAX - LOG_AHEAD)
		write_sequence(rel, buffer, row->last_value, LOG_AHEAD);
	UnlockReleaseBuffer(buffer);
	relation_close(rel, NoLock);
}

/*
 * Set a sequence, so that no crash can take it back to where it was before.
 * Without "back" it is left where it is if that is not lower. As in setval(), the
 * transaction gets an id, so that its commit waits for a synchronous standby.
 */
static void
set_sequence(Oid sequence, int64 value, bool back)
{
	Relation	rel = relation_open(sequence, RowExclusiveLock);
	Buffer		buffer = ReadBuffer(rel, 0);
	Form_pg_sequence_data row;
	XLogRecPtr	lsn;

	(void) GetTopTransactionId();
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	row = sequence_row(buffer);
	if (back || !row->is_called || row->last_value < value)
		write_sequence(rel, buffer, value, 0);
	lsn = PageGetLSN(BufferGetPage(buffer));
	UnlockReleaseBuffer(buffer);
	relation_close(rel, NoLock);
	XLogFlush(lsn);
}

static void
lock_moving(Oid sequence)
{
	LockDatabaseObject(RelationRelationId, sequence, 0, ExclusiveLock);
}

static void
unlock_moving(Oid sequence)
{
	UnlockDatabaseObject(RelationRelationId, sequence, 0, ExclusiveLock);
}

/*
 * Where tokens are issued now, as a positive number. What rewrites a sequence may
 * keep its count of covered values, which the new file's record does not cover.
 */
static int64
current_identity(Oid sequence)
{
	Relation	rel = relation_open(sequence, RowExclusiveLock);
	struct
	{
		uint64		system;
		Oid			database;
		Oid			sequence;
		Oid			file;
		TimeLineID	timeline;
	}			identity;

	identity.system = GetSystemIdentifier();
	identity.database = MyDatabaseId;
	identity.sequence = sequence;
	identity.file = rel->rd_rel->relfilenode;
	identity.timeline = GetWALInsertionTimeLine();
	relation_close(rel, NoLock);
	return (int64) (hash_bytes_extended((const unsigned char *) &identity,
										sizeof(identity), 0) >> 2) + 1;
}

/* Move issuing past a number, under the lock. */
static void
move_issuing(Oid sequence, int64 past)
{
	if (past > LAST_EPOCH)
		ereport(ERROR,
				(errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED),
				 errmsg("cannot move the issuing of tokens to %lld", (long long) past),
				 errdetail("It can be moved to %lld at most.",
						   (long long) LAST_EPOCH)));
	set_sequence(sequence, past, false);
}

/* The last token that can have been issued, 0 before the first. */
static int64
last_issued(Oid sequence)
{
	SequenceState state = read_sequence(sequence, NoLock);

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

	lock_moving(sequence);
	recorded = read_sequence(recorder, NoLock);
	if (!recorded.is_called || recorded.last_value != identity)
	{
		last = last_issued(sequence);
		if (last != 0 || recorded.is_called)
			move_issuing(sequence, epoch_after(last));
		set_sequence(recorder, identity, true);
	}
	unlock_moving(sequence);
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

	token = nextval_internal(sequence, false);

	/* The record made ahead is for later ones, and flushed with our commit. */
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
	lock_moving(sequence);
	if (last_issued(sequence) < past)
	{
		DEBUG_POINT("moving");
		move_issuing(sequence, past);
	}
	unlock_moving(sequence);
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
	lock_moving(sequence);
	past = Max(epoch_after(last_issued(sequence)), above);
	move_issuing(sequence, past);
	unlock_moving(sequence);
	return past + 1;
}
