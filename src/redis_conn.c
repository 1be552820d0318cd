/*
 * redis_conn.c
 *		Connections to Redis, kept for this backend's next call; the only file
 *		that knows hiredis, which here only writes requests and reads answers.
 *
 * Rules: a connection is "busy" from its first byte until an answer is
 * complete, and so stays busy if an error comes in between. A busy one is
 * closed before anything else is asked, since the next answer on it would be
 * somebody else's. Callbacks only mark connections: they may run while one is
 * in use. An answer is copied out and hiredis' memory freed before anything
 * can raise an error.
 *
 * Connections are kept by user mapping and never by what the options say, so
 * no secret is in a key. Between calls nothing is known of a connection but
 * that it is open and silent.
 */
#include "postgres.h"

#include <hiredis/hiredis.h>

#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/syscache.h"

#include "redis_conn.h"
#include "redis_link.h"

#define NODE_MAX	(REDIS_MAX_HOST + 16)

typedef struct ConnKey
{
	Oid			umid;
	char		node[NODE_MAX]; /* "" or who named another one; zero-padded */
} ConnKey;

struct RedisConn
{
	ConnKey		key;			/* hash key (must be first) */
	RedisLink	link;			/* the rest is invalid while it is closed */
	char		server[NAMEDATALEN];
	redisReader *reader;
	bool		busy;			/* an answer is, or may be, outstanding */
	bool		invalid;		/* its options have changed */
	bool		keep;
	uint32		server_hash;
	uint32		mapping_hash;
};

static HTAB *connections = NULL;

/* redis_word: a constant as a string with its length */
FenceString
redis_word(const char *word)
{
	FenceString result = {word, (int) strlen(word)};

	return result;
}

static void
invalidate(Datum arg, int cacheid, uint32 hashvalue)
{
	HASH_SEQ_STATUS scan;
	RedisConn  *conn;

	hash_seq_init(&scan, connections);
	while ((conn = hash_seq_search(&scan)) != NULL)
		if (hashvalue == 0 ||
			hashvalue == (cacheid == FOREIGNSERVEROID ? conn->server_hash :
						  conn->mapping_hash))
			conn->invalid = true;
}

static void
create_table(void)
{
	HASHCTL		control = {0};

	control.keysize = sizeof(ConnKey);
	control.entrysize = sizeof(RedisConn);
	connections = hash_create("lockfence connections to Redis", 8, &control,
							  HASH_ELEM | HASH_BLOBS);
	CacheRegisterSyscacheCallback(FOREIGNSERVEROID, invalidate, (Datum) 0);
	CacheRegisterSyscacheCallback(USERMAPPINGOID, invalidate, (Datum) 0);
}

/* redis_conn_close: at any time; the connection can be opened again */
void
redis_conn_close(RedisConn *conn)
{
	redis_link_close(&conn->link);
	if (conn->reader != NULL)
		redisReaderFree(conn->reader);
	conn->reader = NULL;
	conn->busy = false;
}

/* redis_conn_done: the call needs it no more */
void
redis_conn_done(RedisConn *conn)
{
	if (!conn->keep)
		redis_conn_close(conn);
}

/* Close what an error has left and what has changed; forget what is closed. */
static void
sweep(bool idle)
{
	HASH_SEQ_STATUS scan;
	RedisConn  *conn;

	hash_seq_init(&scan, connections);
	while ((conn = hash_seq_search(&scan)) != NULL)
	{
		if (conn->link.fd >= 0 && !conn->busy && !conn->invalid && !idle)
			continue;
		redis_conn_close(conn);
		(void) hash_search(connections, &conn->key, HASH_REMOVE, NULL);
	}
}

static void
set_key(ConnKey *key, const RedisServer *server, const char *node)
{
	memset(key, 0, sizeof(ConnKey));
	key->umid = server->umid;
	strlcpy(key->node, node, NODE_MAX);
}

/*
 * redis_conn_find
 *
 * An open connection of this mapping to a node ("" is where the options lead),
 * looked at but not asked, or NULL.
 */
RedisConn *
redis_conn_find(const RedisServer *server, const char *node)
{
	RedisConn  *conn;
	ConnKey		key;

	if (connections == NULL)
		create_table();
	sweep(false);
	set_key(&key, server, node);
	conn = hash_search(connections, &key, HASH_FIND, NULL);
	if (conn != NULL && !redis_link_quiet(&conn->link))
	{
		redis_conn_close(conn);
		return NULL;
	}
	return conn;
}

/* Out of memory, or what came is not the protocol: the connection is lost. */
static void
raise_protocol(RedisConn *conn, const char *detail)
{
	char		server[NAMEDATALEN];

	strlcpy(server, conn->server, NAMEDATALEN);
	redis_conn_close(conn);
	ereport(ERROR,
			(errcode(ERRCODE_LEASE_AUTHORITY_ERROR),
			 errmsg("Redis server \"%s\" sent no valid answer", server),
			 errdetail("%s", detail)));
}

static void
raise_memory(RedisConn *conn)
{
	redis_conn_close(conn);
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("out of memory"),
			 errdetail("Failed while talking to Redis.")));
}

/* Copy one value; false if it does not fit. */
static bool
copy_value(RespReply *reply, RespValue *to, const redisReply *from)
{
	to->integer = 0;
	to->text.data = "";
	to->text.len = 0;
	switch (from->type)
	{
		case REDIS_REPLY_NIL:
			to->type = RESP_NIL;
			return true;
		case REDIS_REPLY_INTEGER:
			to->type = RESP_INTEGER;
			to->integer = from->integer;
			return true;
		case REDIS_REPLY_ARRAY:
			to->type = RESP_ARRAY;
			return true;
		case REDIS_REPLY_STRING:
		case REDIS_REPLY_STATUS:
		case REDIS_REPLY_ERROR:
			to->type = from->type == REDIS_REPLY_ERROR ? RESP_ERROR : RESP_STRING;
			if ((size_t) from->len > (size_t) (REDIS_MAX_REPLY - reply->used))
				return false;
			to->text.data = reply->data + reply->used;
			to->text.len = (int) from->len;
			memcpy(reply->data + reply->used, from->str, from->len);
			reply->used += (int) from->len;
			return true;
		default:
			return false;
	}
}

static bool
copy_reply(RespReply *reply, const redisReply *from)
{
	reply->used = 0;
	reply->count = 0;
	if (!copy_value(reply, &reply->value, from))
		return false;
	if (reply->value.type == RESP_ARRAY)
	{
		reply->count = (int) from->elements;
		for (int i = 0; i < Min(reply->count, REDIS_MAX_ITEMS); i++)
			if (!copy_value(reply, &reply->items[i], from->element[i]))
				return false;
	}
	return true;
}

static RedisEnd
receive_reply(RedisConn *conn, int64 deadline, RespReply *reply)
{
	char		chunk[2048];
	int			total = 0;
	int			received;
	void	   *parsed = NULL;
	bool		copied;

	for (;;)
	{
		switch (redis_link_receive(&conn->link, chunk, sizeof(chunk), deadline, &received))
		{
			case REDIS_STREAM_OK:
				break;
			case REDIS_STREAM_CLOSED:
				return REDIS_CUT;
			case REDIS_STREAM_LATE:
				return REDIS_LATE;
		}
		total += received;
		if (total > REDIS_MAX_REPLY)
			raise_protocol(conn, "The answer is too long.");
		if (redisReaderFeed(conn->reader, chunk, received) != REDIS_OK ||
			redisReaderGetReply(conn->reader, &parsed) != REDIS_OK)
			raise_protocol(conn, "It is not in the Redis protocol.");
		if (parsed != NULL)
			break;
	}
	copied = copy_reply(reply, parsed);
	freeReplyObject(parsed);
	if (!copied)
		raise_protocol(conn, "The answer is of an unexpected type.");
	if (conn->reader->pos < conn->reader->len)
		raise_protocol(conn, "There is more than one answer.");
	return REDIS_ANSWERED;
}

/*
 * redis_conn_call
 *
 * One request and its answer, error answers included. Unless it is answered
 * the connection is closed. Raises LF005 for what is no answer.
 */
RedisEnd
redis_conn_call(RedisConn *conn, int argc, const FenceString *argv, int64 deadline,
				RespReply *reply)
{
	const char *words[8];
	size_t		lengths[lengthof(words)];
	size_t		total = 0;
	char	   *request;
	char	   *formatted = NULL;
	long long	len;
	int			sent;
	RedisStream stream;
	RedisEnd	end;

	Assert(argc <= lengthof(words));
	for (int i = 0; i < argc; i++)
	{
		words[i] = argv[i].data;
		lengths[i] = argv[i].len;
		total += argv[i].len + 32;
	}
	request = palloc(total + 32);
	len = redisFormatCommandArgv(&formatted, argc, words, lengths);
	if (len < 0 || formatted == NULL)
		raise_memory(conn);
	Assert(len <= total + 32);
	memcpy(request, formatted, len);
	redisFreeCommand(formatted);

	conn->busy = true;
	stream = redis_link_send(&conn->link, request, (int) len, deadline, &sent);
	explicit_bzero(request, len);
	pfree(request);
	if (stream == REDIS_STREAM_OK)
		end = receive_reply(conn, deadline, reply);
	else if (sent == 0 && stream == REDIS_STREAM_CLOSED)
		end = REDIS_UNSENT;
	else
		end = stream == REDIS_STREAM_CLOSED ? REDIS_CUT : REDIS_LATE;

	if (end == REDIS_ANSWERED)
		conn->busy = false;
	else
		redis_conn_close(conn);
	return end;
}

/* One step of the greeting. False with a reason if Redis cannot be used now. */
static bool
greet(RedisConn *conn, int argc, const FenceString *argv, int64 deadline,
	  char *reason, int size)
{
	RespReply	reply;
	const char *meaning;
	bool		login = strcmp(argv[0].data, "AUTH") == 0;

	switch (redis_conn_call(conn, argc, argv, deadline, &reply))
	{
		case REDIS_ANSWERED:
			break;
		case REDIS_LATE:
			snprintf(reason, size, "Redis did not answer a new connection in time");
			return false;
		default:
			snprintf(reason, size, "Redis closed a new connection");
			return false;
	}
	if (reply.value.type == RESP_STRING)
		return true;
	if (reply.value.type != RESP_ERROR)
		raise_protocol(conn, "The answer is of an unexpected type.");
	switch (redis_error_class(reply.value.text, &meaning))
	{
		case REDIS_SAYS_LATER:
		case REDIS_SAYS_READONLY:
			redis_conn_close(conn);
			strlcpy(reason, meaning, size);
			return false;
		default:
			break;
	}
	redis_conn_close(conn);
	/* Never show the text of an answer to a password. */
	redis_error_raise(conn->server,
					  login ? redis_word("WRONGPASS") : reply.value.text);
	return false;
}

/* What a new connection needs before it is asked anything that matters. */
static bool
greet_all(RedisConn *conn, const RedisOptions *options, int64 deadline,
		  char *reason, int size)
{
	FenceString words[3];
	int			argc = 0;
	char		database[12];

	if (options->password != NULL)
	{
		words[argc++] = redis_word("AUTH");
		if (options->user != NULL)
			words[argc++] = redis_word(options->user);
		words[argc++] = redis_word(options->password);
		if (!greet(conn, argc, words, deadline, reason, size))
			return false;
	}
	if (options->database != 0)
	{
		snprintf(database, sizeof(database), "%d", options->database);
		words[0] = redis_word("SELECT");
		words[1] = redis_word(database);
		if (!greet(conn, 2, words, deadline, reason, size))
			return false;
	}
	words[0] = redis_word("PING");
	return greet(conn, 1, words, deadline, reason, size);
}

/*
 * redis_conn_open
 *
 * A new connection, greeted. NULL with the reason in words if Redis cannot be
 * reached or used now; nothing has been asked then. Raises what
 * redis_link_open() and redis_error_raise() raise.
 */
RedisConn *
redis_conn_open(const RedisServer *server, const char *node,
				const RedisEndpoint *endpoint, RedisGreeting greeting,
				int64 deadline, char *reason, int size)
{
	ConnKey		key;
	RedisConn  *conn;
	bool		found;
	int64		connected_by = redis_clock() + server->options.connect_timeout * INT64CONST(1000);

	if (!redis_link_spare())
		sweep(true);
	set_key(&key, server, node);
	conn = hash_search(connections, &key, HASH_ENTER, &found);
	if (found)
		redis_conn_close(conn);
	conn->link.fd = -1;
	conn->link.tls = NULL;
	conn->reader = NULL;
	conn->busy = true;
	conn->invalid = false;
	conn->keep = server->options.keep_connections && greeting == REDIS_GREET_DATA;
	conn->server_hash = GetSysCacheHashValue1(FOREIGNSERVEROID,
											  ObjectIdGetDatum(server->serverid));
	conn->mapping_hash = GetSysCacheHashValue1(USERMAPPINGOID,
											   ObjectIdGetDatum(server->umid));
	strlcpy(conn->server, server->name, NAMEDATALEN);
	conn->reader = redisReaderCreate();
	if (conn->reader == NULL)
		raise_memory(conn);

	deadline = Min(deadline, connected_by);
	if (!redis_link_open(&conn->link, server->name, endpoint, &server->options,
						 deadline, reason, size))
	{
		redis_conn_close(conn);
		return NULL;
	}
	if (greeting == REDIS_GREET_DATA &&
		!greet_all(conn, &server->options, deadline, reason, size))
		return NULL;
	conn->busy = false;
	return conn;
}
