# lockfence: build, install and test with PGXS.
#
#   make && make install && make installcheck
#
# Strict warnings and assertions are set by test/check.sh, not here, so that a
# new compiler's new warning never breaks a user's build.

EXTENSION = lockfence
EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" lockfence.control)

MODULE_big = lockfence
OBJS := $(patsubst %.c,%.o,$(sort $(wildcard src/*.c)))
DATA := $(sort $(wildcard sql/lockfence--*.sql))
PGFILEDESC = "lockfence - fencing tokens and leases"

PG_CPPFLAGS = -DLOCKFENCE_VERSION='"$(EXTVERSION)"'

# Leases of Redis: WITH_REDIS=yes needs hiredis, =no builds without, =auto asks
# pkg-config.  TLS to Redis comes with OpenSSL, in the same way.
WITH_REDIS ?= auto
PKG_CONFIG ?= pkg-config
found = $(shell $(PKG_CONFIG) --exists $(1) 2>/dev/null && echo yes)
ifeq ($(WITH_REDIS),auto)
override WITH_REDIS := $(or $(call found,hiredis),no)
endif
ifeq ($(WITH_REDIS),yes)
ifneq ($(call found,hiredis),yes)
$(error WITH_REDIS=yes, but $(PKG_CONFIG) does not find hiredis)
endif
OBJS := $(filter-out src/redis_stub.o,$(OBJS))
REDIS_LIBS := hiredis $(if $(call found,openssl),openssl)
PG_CPPFLAGS += -DLOCKFENCE_WITH_REDIS $(shell $(PKG_CONFIG) --cflags $(REDIS_LIBS)) \
	$(if $(filter openssl,$(REDIS_LIBS)),-DLOCKFENCE_WITH_TLS)
SHLIB_LINK = $(shell $(PKG_CONFIG) --libs $(REDIS_LIBS))
else ifeq ($(WITH_REDIS),no)
OBJS := $(filter-out $(patsubst %,src/redis_%.o,check conn fence lease link reply route tls),$(OBJS))
else
$(error WITH_REDIS is $(WITH_REDIS), it can be yes, no or auto)
endif

# Golden files are in expected/ and test/isolation/expected/.  From 16 on
# pg_regress looks for them in one directory only, the current one if not told.
REGRESS := $(patsubst test/sql/%.sql,%,$(sort $(wildcard test/sql/*.sql)))
REGRESS_OPTS = --inputdir=test --load-extension=lockfence
# Specs that wait at debug points need a build that has them (test/check.sh).
SPECS := $(sort $(wildcard test/isolation/specs/*.spec))
ifeq (,$(findstring LOCKFENCE_DEBUG_POINTS,$(PG_CFLAGS)))
SPECS := $(filter-out $(shell grep -ls debug_point test/isolation/specs/*.spec),$(SPECS))
endif
ISOLATION := $(patsubst test/isolation/specs/%.spec,%,$(SPECS))
ISOLATION_OPTS = --inputdir=test/isolation --load-extension=lockfence \
	$(if $(filter-out 15,$(MAJORVERSION)),--expecteddir=test/isolation)
TAP_TESTS := $(if $(wildcard test/t/*.pl),1)
PROVE_TESTS ?= test/t/*.pl

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# PGXS as packaged has no dependency tracking: any header rebuilds everything.
$(OBJS) $(OBJS:.o=.bc): $(wildcard src/*.h)
