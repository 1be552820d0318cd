/*
 * redis_option.c
 *		SQL entry: redis_validator, and the options of Redis servers and of
 *		user mappings for them.
 *
 * Rules: everything that can be judged without a connection is judged when the
 * option is set, with an error that names the option. What makes the database
 * server open a file or a socket of the machine, or talk to whom another
 * server names, only a superuser can set. No value of a mapping is ever part
 * of a message.
 */
#include "postgres.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include "access/reloptions.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "utils/builtins.h"
#include "utils/guc.h"

#include "redis_option.h"

PG_FUNCTION_INFO_V1(lockfence_redis_validator);

/* A build with hiredis and without OpenSSL cannot do what these ask for. */
#if defined(LOCKFENCE_WITH_REDIS) && !defined(LOCKFENCE_WITH_TLS)
#define TLS_IS_MISSING	true
#else
#define TLS_IS_MISSING	false
#endif

#define SENTINEL_PORT	26379
#define MAX_PREFIX		256

typedef enum OptionKind
{
	KIND_TEXT,
	KIND_PREFIX,
	KIND_HOST,
	KIND_ADDRESS,
	KIND_SOCKET,
	KIND_FILE,
	KIND_SENTINELS,
	KIND_SSLMODE,
	KIND_INT,
	KIND_BOOL
} OptionKind;

typedef struct Option
{
	const char *name;
	Oid			catalog;
	OptionKind	kind;
	size_t		offset;
	bool		superuser_only;
	bool		tls;
	int			min;
	int			max;
} Option;

#define SERVER(name, kind, ...) \
	{#name, ForeignServerRelationId, kind, offsetof(RedisOptions, name), __VA_ARGS__}
#define MAPPING(name, kind, ...) \
	{#name, UserMappingRelationId, kind, offsetof(RedisOptions, name), __VA_ARGS__}

/* Name, kind; superuser only, needs TLS, range. */
static const Option known_options[] = {
	SERVER(host, KIND_HOST, false, false, 0, 0),
	SERVER(hostaddr, KIND_ADDRESS, false, false, 0, 0),
	SERVER(port, KIND_INT, false, false, 1, 65535),
	SERVER(unix_socket_path, KIND_SOCKET, true, false, 0, 0),
	SERVER(database, KIND_INT, false, false, 0, 16383),
	SERVER(key_prefix, KIND_PREFIX, false, false, 0, 0),
	SERVER(sslmode, KIND_SSLMODE, false, false, 0, 0),
	SERVER(sslrootcert, KIND_FILE, true, true, 0, 0),
	SERVER(ssl_server_name, KIND_HOST, false, true, 0, 0),
	SERVER(connect_timeout, KIND_INT, false, false, 1, 60000),
	SERVER(timeout, KIND_INT, false, false, 1, 60000),
	SERVER(keep_connections, KIND_BOOL, false, false, 0, 0),
	SERVER(cluster, KIND_BOOL, false, false, 0, 0),
	SERVER(sentinels, KIND_SENTINELS, true, false, 0, 0),
	SERVER(sentinel_master, KIND_TEXT, false, false, 0, 0),
	MAPPING(user, KIND_TEXT, false, false, 0, 0),
	MAPPING(password, KIND_TEXT, false, false, 0, 0),
	MAPPING(password_required, KIND_BOOL, false, false, 0, 0),
	MAPPING(sslcert, KIND_FILE, true, true, 0, 0),
	MAPPING(sslkey, KIND_FILE, true, true, 0, 0),
};

static const Option *
find_option(const char *name, Oid catalog)
{
	for (int i = 0; i < lengthof(known_options); i++)
		if (known_options[i].catalog == catalog &&
			strcmp(known_options[i].name, name) == 0)
			return &known_options[i];
	return NULL;
}

static void
reject_unknown(const char *name, Oid catalog)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < lengthof(known_options); i++)
		if (known_options[i].catalog == catalog)
			appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "",
							 known_options[i].name);
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
			 errmsg("invalid option \"%s\"", name),
			 list.len > 0 ? errhint("Valid options in this context are: %s.", list.data) :
			 errhint("There are no valid options in this context.")));
}

static void
reject_value(const Option *option, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
			 errmsg("invalid value for option \"%s\"", option->name),
			 errdetail("%s", detail)));
}

/* A port of decimal digits only, or -1. */
static int
parse_port(const char *text, int len)
{
	int			port = 0;

	if (len < 1 || len > 5)
		return -1;
	for (int i = 0; i < len; i++)
	{
		if (text[i] < '0' || text[i] > '9')
			return -1;
		port = port * 10 + (text[i] - '0');
	}
	return port >= 1 && port <= 65535 ? port : -1;
}

/*
 * redis_option_split
 *
 * Split HOST:PORT, HOST, [ADDRESS]:PORT or ADDRESS:PORT, where the last colon
 * is what counts. The host may be empty. *host has REDIS_MAX_HOST + 1 bytes.
 */
bool
redis_option_split(FenceString text, int default_port, char *host, int *port)
{
	int			end = text.len;
	int			start = 0;

	*port = default_port;
	for (int i = text.len - 1; i >= 0 && text.data[i] != ']'; i--)
		if (text.data[i] == ':')
		{
			*port = parse_port(text.data + i + 1, text.len - i - 1);
			end = i;
			break;
		}
	if (end - start >= 2 && text.data[start] == '[' && text.data[end - 1] == ']')
	{
		start++;
		end--;
	}
	if (*port <= 0 || end - start > REDIS_MAX_HOST)
		return false;
	for (int i = start; i < end; i++)
		if (text.data[i] <= ' ' || text.data[i] >= 0x7f || text.data[i] == ',')
			return false;
	memcpy(host, text.data + start, end - start);
	host[end - start] = '\0';
	return true;
}

/*
 * redis_option_next_sentinel
 *
 * The sentinels one by one: *at is 0 first and is kept by the caller. False
 * after the last one, and at an entry that cannot be read.
 */
bool
redis_option_next_sentinel(const RedisOptions *options, int *at, char *host, int *port)
{
	const char *start = options->sentinels + *at;
	FenceString entry;

	while (*start == ' ' || *start == ',')
		start++;
	if (*start == '\0')
		return false;
	entry.data = start;
	entry.len = strcspn(start, " ,");
	if (!redis_option_split(entry, SENTINEL_PORT, host, port) || host[0] == '\0')
		return false;
	*at = (int) (start - options->sentinels) + entry.len;
	return true;
}

static void
check_sentinels(const Option *option, char *value)
{
	RedisOptions options = {0};
	char		host[REDIS_MAX_HOST + 1];
	int			port;
	int			at = 0;
	int			count = 0;

	options.sentinels = value;
	while (redis_option_next_sentinel(&options, &at, host, &port))
		count++;
	if (count == 0 || value[at + strspn(value + at, " ,")] != '\0')
		reject_value(option, "It is a list of host:port, separated by commas.");
}

static bool
is_address(const char *text)
{
	struct in6_addr address;

	return inet_pton(AF_INET, text, &address) == 1 ||
		inet_pton(AF_INET6, text, &address) == 1;
}

static int
int_value(const Option *option, const char *value)
{
	int			result;

	if (!parse_int(value, &result, 0, NULL) ||
		result < option->min || result > option->max)
		reject_value(option, psprintf("It is a whole number from %d to %d.",
									  option->min, option->max));
	return result;
}

static bool
bool_value(const Option *option, const char *value)
{
	bool		result;

	if (!parse_bool(value, &result))
		reject_value(option, "It is \"on\" or \"off\".");
	return result;
}

static RedisSslMode
sslmode_value(const Option *option, const char *value)
{
	if (strcmp(value, "disable") == 0)
		return REDIS_SSL_DISABLE;
	if (strcmp(value, "verify-ca") == 0)
		return REDIS_SSL_VERIFY_CA;
	if (strcmp(value, "verify-full") == 0)
		return REDIS_SSL_VERIFY_FULL;
	reject_value(option, "It is \"disable\", \"verify-ca\" or \"verify-full\".");
	return REDIS_SSL_DEFAULT;
}

/* Check one value, and store it. */
static void
set_option(RedisOptions *options, const Option *option, char *value)
{
	void	   *field = (char *) options + option->offset;

	switch (option->kind)
	{
		case KIND_INT:
			*(int *) field = int_value(option, value);
			return;
		case KIND_BOOL:
			*(bool *) field = bool_value(option, value);
			return;
		case KIND_SSLMODE:
			*(RedisSslMode *) field = sslmode_value(option, value);
			return;
		case KIND_PREFIX:
			if (strlen(value) > MAX_PREFIX)
				reject_value(option, "It has at most 256 bytes.");
			break;
		case KIND_HOST:
			if (value[0] == '\0' || strlen(value) > REDIS_MAX_HOST ||
				strpbrk(value, " \t\r\n/") != NULL)
				reject_value(option, "It is a host name or an address.");
			break;
		case KIND_ADDRESS:
			if (!is_address(value))
				reject_value(option, "It is an IPv4 or IPv6 address.");
			break;
		case KIND_SOCKET:
			if (value[0] != '/' ||
				strlen(value) >= sizeof(((struct sockaddr_un *) NULL)->sun_path))
				reject_value(option, "It is an absolute path, short enough for a socket.");
			break;
		case KIND_FILE:
			if (value[0] != '/')
				reject_value(option, "It is an absolute path.");
			break;
		case KIND_SENTINELS:
			check_sentinels(option, value);
			break;
		case KIND_TEXT:
			if (value[0] == '\0')
				reject_value(option, "It must not be empty.");
			break;
	}
	*(char **) field = value;
}

/* redis_option_defaults: as if nothing had been given */
void
redis_option_defaults(RedisOptions *options)
{
	memset(options, 0, sizeof(RedisOptions));
	options->port = 6379;
	options->connect_timeout = 1000;
	options->timeout = 2000;
	options->keep_connections = true;
	options->password_required = true;
}

/* redis_option_read: add options of a server or mapping, checked when set */
void
redis_option_read(RedisOptions *options, List *given)
{
	ListCell   *cell;

	foreach(cell, given)
	{
		DefElem    *def = lfirst_node(DefElem, cell);
		const Option *option = find_option(def->defname, ForeignServerRelationId);

		if (option == NULL)
			option = find_option(def->defname, UserMappingRelationId);
		if (option != NULL)
			set_option(options, option, defGetString(def));
	}
}

/* redis_option_endpoint: where the options say that Redis is */
void
redis_option_endpoint(const RedisOptions *options, RedisEndpoint *endpoint)
{
	memset(endpoint, 0, sizeof(RedisEndpoint));
	endpoint->path = options->unix_socket_path;
	endpoint->host = options->host;
	endpoint->hostaddr = options->hostaddr;
	endpoint->port = options->port;
	if (endpoint->host == NULL && endpoint->hostaddr == NULL)
		endpoint->hostaddr = "127.0.0.1";
}

/* redis_option_local: does a connection certainly stay on this machine? */
bool
redis_option_local(const RedisEndpoint *endpoint)
{
	const char *address = endpoint->hostaddr ? endpoint->hostaddr : endpoint->host;
	struct in_addr v4;

	if (endpoint->path != NULL)
		return true;
	if (inet_pton(AF_INET, address, &v4) == 1)
		return (pg_ntoh32(v4.s_addr) >> 24) == 127;
	return strcmp(address, "::1") == 0 || strcmp(address, "localhost") == 0;
}

/*
 * redis_option_ssl
 *
 * How a connection to this address is protected. Off this machine that is
 * verify-full, unless the server's options say otherwise.
 */
RedisSslMode
redis_option_ssl(const RedisOptions *options, const RedisEndpoint *endpoint)
{
	if (endpoint->path != NULL)
		return REDIS_SSL_DISABLE;
	if (options->sslmode != REDIS_SSL_DEFAULT)
		return options->sslmode;
	return redis_option_local(endpoint) ? REDIS_SSL_DISABLE : REDIS_SSL_VERIFY_FULL;
}

static void
check_rights(const Option *option, const RedisOptions *options)
{
	bool		needed = option->superuser_only ||
		(option->offset == offsetof(RedisOptions, password_required) &&
		 !options->password_required);

	if (needed && !superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("only superusers can set option \"%s\"%s", option->name,
						option->superuser_only ? "" : " to \"off\"")));
}

static void
check_tls(const Option *option, const RedisOptions *options)
{
	bool		needed = option->tls ||
		(option->kind == KIND_SSLMODE && options->sslmode != REDIS_SSL_DISABLE);

	if (needed && TLS_IS_MISSING)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("option \"%s\" is not supported by this build", option->name),
				 errhint("Build lockfence where pkg-config finds OpenSSL.")));
}

static void
reject_pair(const char *one, const char *other)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
			 errmsg("options \"%s\" and \"%s\" exclude each other", one, other)));
}

static void
reject_missing(const char *given, const char *missing)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
			 errmsg("option \"%s\" needs option \"%s\"", given, missing)));
}

static void
check_together(const RedisOptions *options)
{
	const char *where = options->unix_socket_path ? "unix_socket_path" :
		options->sentinels ? "sentinels" : NULL;

	if (where != NULL && (options->host || options->hostaddr))
		reject_pair(where, options->host ? "host" : "hostaddr");
	if (options->unix_socket_path && options->sentinels)
		reject_pair("unix_socket_path", "sentinels");
	if (options->unix_socket_path && options->sslmode > REDIS_SSL_DISABLE)
		reject_pair("unix_socket_path", "sslmode");
	if (options->sentinels && options->cluster)
		reject_pair("sentinels", "cluster");
	if (options->cluster && options->database != 0)
		reject_pair("cluster", "database");
	if (options->sentinels && !options->sentinel_master)
		reject_missing("sentinels", "sentinel_master");
	if (options->sentinel_master && !options->sentinels)
		reject_missing("sentinel_master", "sentinels");
	if (options->user && !options->password)
		reject_missing("user", "password");
	if (options->sslcert && !options->sslkey)
		reject_missing("sslcert", "sslkey");
	if (options->sslkey && !options->sslcert)
		reject_missing("sslkey", "sslcert");
}

/*
 * lockfence_redis_validator(options text[], catalog oid) returns void
 *
 * Called by CREATE and ALTER of the wrapper, a server or a user mapping, with
 * all options as they will be. Raises HV00D for an unknown option, HV024 for a
 * bad value, HV00J for options that do not go together, 42501 for what only
 * superusers can set, 0A000 for TLS in a build without it.
 */
Datum
lockfence_redis_validator(PG_FUNCTION_ARGS)
{
	List	   *given;
	Oid			catalog;
	RedisOptions options;
	ListCell   *cell;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", PG_ARGISNULL(0) ? "options" : "catalog")));
	given = untransformRelOptions(PG_GETARG_DATUM(0));
	catalog = PG_GETARG_OID(1);
	redis_option_defaults(&options);
	foreach(cell, given)
	{
		DefElem    *def = lfirst_node(DefElem, cell);
		const Option *option = find_option(def->defname, catalog);

		if (option == NULL)
			reject_unknown(def->defname, catalog);
		set_option(&options, option, defGetString(def));
		check_rights(option, &options);
		check_tls(option, &options);
	}
	check_together(&options);
	PG_RETURN_VOID();
}
