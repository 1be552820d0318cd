/*
 * fence_row.c
 *		A fence in memory: its columns, what can be said of it, and how a new
 *		generation starts.
 *
 * Rule: nothing here reads or writes the table.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"

#include "fence_row.h"

static TimestampTz
slot_time(TupleTableSlot *slot, int attnum)
{
	return slot->tts_isnull[attnum - 1] ? 0 :
		DatumGetTimestampTz(slot->tts_values[attnum - 1]);
}

/* A text column in place; data NULL if it is null. */
static FenceString
slot_string(TupleTableSlot *slot, int attnum)
{
	FenceString string = {NULL, 0};
	struct varlena *value;

	if (slot->tts_isnull[attnum - 1])
		return string;
	value = PG_DETOAST_DATUM_PACKED(slot->tts_values[attnum - 1]);
	string.data = VARDATA_ANY(value);
	string.len = VARSIZE_ANY_EXHDR(value);
	return string;
}

/* Keep a copy of the name of a lease's authority; data NULL is no lease. */
static void
set_authority(FenceRow *row, FenceString authority)
{
	row->has_lease = authority.data != NULL;
	if (!row->has_lease)
		return;
	row->authority.len = Min(authority.len, NAMEDATALEN - 1);
	memcpy(row->authority_data, authority.data, row->authority.len);
	row->authority_data[row->authority.len] = '\0';
	row->authority.data = row->authority_data;
}

/* fence_row_decode: copy the columns of the tuple in the slot into *row */
void
fence_row_decode(FenceRow *row, TupleTableSlot *slot)
{
	Datum	   *values;

	slot_getallattrs(slot);
	values = slot->tts_values;

	row->token = DatumGetInt64(values[Anum_fence_token - 1]);
	row->raised_at = slot_time(slot, Anum_fence_raised_at);
	row->raised_by = DatumGetFullTransactionId(values[Anum_fence_raised_by - 1]);
	row->acquired_at = slot_time(slot, Anum_fence_acquired_at);
	row->renewed_at = slot_time(slot, Anum_fence_renewed_at);
	row->expires_at = slot_time(slot, Anum_fence_expires_at);
	row->issued = DatumGetBool(values[Anum_fence_issued - 1]);
	row->released = DatumGetBool(values[Anum_fence_released - 1]);
	fence_row_set_holder(row, slot_string(slot, Anum_fence_holder));
	set_authority(row, slot_string(slot, Anum_fence_authority));
}

static Datum
text_datum(FenceString string)
{
	return PointerGetDatum(cstring_to_text_with_len(string.data, string.len));
}

/* fence_row_form: the heap tuple of a fence */
HeapTuple
fence_row_form(const FenceRow *row, FenceString resource, TupleDesc desc)
{
	Datum		values[Natts_fence] = {0};
	bool		nulls[Natts_fence] = {false};

	values[Anum_fence_resource - 1] = text_datum(resource);
	values[Anum_fence_token - 1] = Int64GetDatum(row->token);
	values[Anum_fence_raised_at - 1] = TimestampTzGetDatum(row->raised_at);
	values[Anum_fence_raised_by - 1] = FullTransactionIdGetDatum(row->raised_by);
	values[Anum_fence_issued - 1] = BoolGetDatum(row->issued);
	values[Anum_fence_released - 1] = BoolGetDatum(row->released);

	if (row->holder.data)
		values[Anum_fence_holder - 1] = text_datum(row->holder);
	nulls[Anum_fence_holder - 1] = row->holder.data == NULL;

	if (row->has_lease)
	{
		values[Anum_fence_acquired_at - 1] = TimestampTzGetDatum(row->acquired_at);
		values[Anum_fence_renewed_at - 1] = TimestampTzGetDatum(row->renewed_at);
		values[Anum_fence_expires_at - 1] = TimestampTzGetDatum(row->expires_at);
		values[Anum_fence_authority - 1] = text_datum(row->authority);
	}
	nulls[Anum_fence_acquired_at - 1] = !row->has_lease;
	nulls[Anum_fence_renewed_at - 1] = !row->has_lease;
	nulls[Anum_fence_expires_at - 1] = !row->has_lease;
	nulls[Anum_fence_authority - 1] = !row->has_lease;

	return heap_form_tuple(desc, values, nulls);
}

/* fence_row_set_holder: keep a copy; data NULL means unknown. */
void
fence_row_set_holder(FenceRow *row, FenceString holder)
{
	row->holder.data = NULL;
	row->holder.len = 0;
	if (holder.data == NULL)
		return;
	row->holder.len = Min(holder.len, FENCE_MAX_HOLDER);
	memcpy(row->holder_data, holder.data, row->holder.len);
	row->holder.data = row->holder_data;
}

/* fence_row_set_lease: authority NULL takes the lease away. */
void
fence_row_set_lease(FenceRow *row, const char *authority, TimestampTz at,
					TimestampTz expires_at)
{
	FenceString name = {authority, authority == NULL ? 0 : strlen(authority)};

	set_authority(row, name);
	if (!row->has_lease)
		return;
	row->acquired_at = row->renewed_at = at;
	row->expires_at = expires_at;
}

/*
 * fence_row_raise
 *
 * Start a new generation in *row: the token with its holder, no lease, raised
 * now and by this transaction, which gets its transaction id here.
 */
void
fence_row_raise(FenceRow *row, int64 token, bool issued, FenceString holder)
{
	row->token = token;
	row->issued = issued;
	row->released = false;
	fence_row_set_holder(row, holder);
	fence_row_set_lease(row, NULL, 0, 0);
	row->raised_at = GetCurrentTimestamp();
	row->raised_by = GetTopFullTransactionId();
}

/*
 * fence_row_state
 *
 * What the decision needs to know of a row that was found. A generation that
 * this transaction itself has released ends only at its commit.
 */
void
fence_row_state(const FenceRow *row, FenceState *state)
{
	memset(state, 0, sizeof(FenceState));
	state->kind = row->issued ? FENCE_ISSUED : FENCE_EXTERNAL;
	state->token = row->token;
	state->holder = row->holder;
	state->released = row->released && !row->mine;
}

/* fence_row_live: does a lease of this generation still run? */
bool
fence_row_live(const FenceRow *row, TimestampTz now)
{
	return row->found && row->has_lease && !row->released &&
		row->expires_at > now;
}

/* fence_row_leased_by: is its lease, live or not, one of this authority? */
bool
fence_row_leased_by(const FenceRow *row, const char *authority)
{
	return row->found && row->has_lease &&
		strcmp(row->authority_data, authority) == 0;
}
