/*
** $Id: lstring.c,v 2.8.1.1 2007/12/27 13:02:25 roberto Exp $
** String table (keeps all strings handled by Lua)
** See Copyright Notice in lua.h
*/


#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define lstring_c
#define LUA_CORE

#include "lua.h"

#include "ldebug.h"
#include "lmem.h"
#include "lobject.h"
#include "lstate.h"
#include "lstring.h"



void luaS_resize (lua_State *L, int newsize) {
  GCObject **newhash;
  stringtable *tb;
  int i;
  if (G(L)->gcstate == GCSsweepstring)
    return;  /* cannot resize during GC traverse */
  newhash = luaM_newvector(L, newsize, GCObject *);
  tb = &G(L)->strt;
  for (i=0; i<newsize; i++) newhash[i] = NULL;
  /* rehash */
  for (i=0; i<tb->size; i++) {
    GCObject *p = tb->hash[i];
    while (p) {  /* for each node in the list */
      GCObject *next = p->gch.next;  /* save next */
      unsigned int h = gco2ts(p)->hash;
      int h1 = lmod(h, newsize);  /* new position */
      lua_assert(cast_int(h%newsize) == lmod(h, newsize));
      p->gch.next = newhash[h1];  /* chain it */
      newhash[h1] = p;
      p = next;
    }
  }
  luaM_freearray(L, tb->hash, tb->size, TString *);
  tb->size = newsize;
  tb->hash = newhash;
}


static TString *newlstr (lua_State *L, const char *str, size_t l,
                                       unsigned int h) {
  TString *ts;
  stringtable *tb;
  if (l+1 > (MAX_SIZET - sizeof(TString))/sizeof(char))
    luaM_toobig(L);
  ts = cast(TString *, luaM_malloc(L, (l+1)*sizeof(char)+sizeof(TString)));
  ts->tsv.len = l;
  ts->tsv.hash = h;
  ts->tsv.marked = luaC_white(G(L));
  ts->tsv.tt = LUA_TSTRING;
  ts->tsv.reserved = 0;
  memcpy(ts+1, str, l*sizeof(char));
  ((char *)(ts+1))[l] = '\0';  /* ending 0 */
  tb = &G(L)->strt;
  h = lmod(h, tb->size);
  ts->tsv.next = tb->hash[h];  /* chain new entry */
  tb->hash[h] = obj2gco(ts);
  tb->nuse++;
  if (tb->nuse > cast(lu_int32, tb->size) && tb->size <= MAX_INT/2)
    luaS_resize(L, tb->size*2);  /* too crowded */
  return ts;
}


/*
** psp: SipHash-1-3 of a string, with a key of this process. Lua's own hash reads 32 bytes of a long string and
** has no key, so that one can make as many strings of one hash as one likes.
*/
static uint64_t hashkey[2];

__attribute__((constructor)) static void makehashkey (void) {
  if (getentropy(hashkey, sizeof(hashkey)) != 0) {  /* a kernel without it: where things are in memory */
    hashkey[0] = (uint64_t)(uintptr_t)&hashkey;
    hashkey[1] = (uint64_t)(uintptr_t)&errno ^ (uint64_t)getpid();
  }
}

#define rotl(x,b)	(((x) << (b)) | ((x) >> (64 - (b))))
#define sipround \
  { v0 += v1; v1 = rotl(v1, 13); v1 ^= v0; v0 = rotl(v0, 32); \
    v2 += v3; v3 = rotl(v3, 16); v3 ^= v2; \
    v0 += v3; v3 = rotl(v3, 21); v3 ^= v0; \
    v2 += v1; v1 = rotl(v1, 17); v1 ^= v2; v2 = rotl(v2, 32); }

unsigned int luaS_hash (const char *str, size_t l) {
  uint64_t v0 = hashkey[0] ^ 0x736f6d6570736575ULL;
  uint64_t v1 = hashkey[1] ^ 0x646f72616e646f6dULL;
  uint64_t v2 = hashkey[0] ^ 0x6c7967656e657261ULL;
  uint64_t v3 = hashkey[1] ^ 0x7465646279746573ULL;
  uint64_t word, last = (uint64_t)l << 56;
  size_t left = l;
  for (; left >= 8; left -= 8, str += 8) {
    memcpy(&word, str, 8);
    v3 ^= word;
    sipround;
    v0 ^= word;
  }
  word = 0;
  memcpy(&word, str, left);
  last |= word & 0x00ffffffffffffffULL;
  v3 ^= last;
  sipround;
  v0 ^= last;
  v2 ^= 0xff;
  sipround;
  sipround;
  sipround;
  word = v0 ^ v1 ^ v2 ^ v3;
  return (unsigned int)(word ^ (word >> 32));
}


/* a number, multiplied by the key: all bits of both have a part in the product's halves */
unsigned int luaS_hashnum (lua_Number n) {
  uint64_t bits;
  unsigned __int128 product;
  memcpy(&bits, &n, sizeof(bits));
  product = (unsigned __int128)(bits ^ hashkey[0]) * (hashkey[1] | 1);
  bits = (uint64_t)product ^ (uint64_t)(product >> 64);
  return (unsigned int)(bits ^ (bits >> 32));
}


TString *luaS_newlstr (lua_State *L, const char *str, size_t l) {
  GCObject *o;
  unsigned int h = luaS_hash(str, l);  /* psp: of all bytes, by a secret key */
  luaG_charge(L, l / 64);
  for (o = G(L)->strt.hash[lmod(h, G(L)->strt.size)];
       o != NULL;
       o = o->gch.next) {
    TString *ts = rawgco2ts(o);
    if (ts->tsv.len == l && (memcmp(str, getstr(ts), l) == 0)) {
      /* string may be dead */
      if (isdead(G(L), o)) changewhite(o);
      return ts;
    }
  }
  return newlstr(L, str, l, h);  /* not found */
}


Udata *luaS_newudata (lua_State *L, size_t s, Table *e) {
  Udata *u;
  if (s > MAX_SIZET - sizeof(Udata))
    luaM_toobig(L);
  u = cast(Udata *, luaM_malloc(L, s + sizeof(Udata)));
  u->uv.marked = luaC_white(G(L));  /* is not finalized */
  u->uv.tt = LUA_TUSERDATA;
  u->uv.len = s;
  u->uv.metatable = NULL;
  u->uv.env = e;
  /* chain it on udata list (after main thread) */
  u->uv.next = G(L)->mainthread->next;
  G(L)->mainthread->next = obj2gco(u);
  return u;
}

