"""prototype"""
import os
import numba
import numpy as np
from alphac4.game import rules
from alphac4.game.rules import Geometry
from alphac4.solver.bits import count_bits, lowest_bit, prefetch

U0 = np.uint64(0)
U1 = np.uint64(1)
def P(name, default):
    return int(os.environ.get(name, default))
ETC_MIN = P("ETC", 8)      # min empties for ETC
TT_MIN = P("TTMIN", 6)
CLAIM = bool(P("CLAIM", 1))
WR = P("WR", 0)
WF = P("WF", 0)
WL = P("WL", 0)
WLG = P("WLG", 0)
WA = P("WA", 0)
WD = P("WD", 0)
WV = P("WV", 0)
HB = P("HB", 8)
HMAX = P("HMAX", 64)
LINES = P("LINES", 0)
PC = P("PC", 8)
PR = P("PR", 0)
def lines():
    import itertools
    out = np.zeros(64, np.int64)
    for c in range(7):
        for r in range(6):
            for dc, dr in ((1,0),(0,1),(1,1),(1,-1)):
                pts=[(c+dc*k,r+dr*k) for k in range(4)]
                if all(0<=x<7 and 0<=y<6 for x,y in pts):
                    for x,y in pts: out[x*7+y]+=LINES
            out[c*7+r] += PC*min(c,6-c)+PR*r
    return out
STATIC = lines()
HIST = P("HIST", 0)
WT = P("WT", 64)
WG = P("WG", 0)
CLAIM_MIN = P("CLAIMMIN", 0)
MULT = np.uint64(0x9E3779B97F4A7C15)
BIAS = 64

@numba.njit(cache=True, inline="always")
def slot_of(table, key, key_bits, table_bits):
    """(slot, tag)"""
    mask = (U1 << key_bits) - U1 if key_bits < np.uint64(64) else ~U0
    h = key ^ (key >> (key_bits >> U1))
    h = (h * MULT) & mask
    h = h ^ (h >> (key_bits >> U1))
    tagbits = key_bits - table_bits
    return h >> tagbits, h & ((U1 << tagbits) - U1)

@numba.njit(cache=True)
def null_window(geometry, root_own, root_occ, root_moves, root_plies, threshold, table, key_bits, table_bits,
                mirror_plies, f_own, f_occ, f_best, f_next, f_count, c_move, c_reply, c_score, history, counters):
    cells = geometry.cells
    board = geometry.board
    bottom = geometry.bottom
    upper = U0
    b = bottom << np.uint64(geometry.rows - 1)
    while b != U0 and b>=bottom:
        pass
        break
    upper = f_own[100]  # precomputed
    d = 0
    own = root_own
    occ = root_occ
    moves = root_moves
    nodes = 0
    value = 0
    while True:
        # ---- expand node (own, occ, moves) at depth d
        nodes += 1
        p = root_plies + d
        a = threshold if (d & 1) == 0 else -threshold - 1
        n = 0
        best = -64
        done = False
        base = d * 32
        opp = own ^ occ
        TW = U0
        if WD:
            TW = rules.winning_cells(geometry, opp, occ)
        win_value = (cells - 1 - p) // 2
        while moves != U0:
            move = moves & (~moves + U1)
            moves ^= move
            o = own | move
            q = occ | move
            W = rules.winning_cells(geometry, o, q)
            legal = (q + bottom) & board
            forced = legal & W
            replies = legal & ~(W >> U1)
            if forced != U0:
                if (forced & (forced - U1)) != U0:
                    replies = U0
                else:
                    replies &= forced
            if replies == U0:
                best = win_value
                done = True
                break
            cell = lowest_bit(move)
            good = upper if ((cells - p) & 1) == 1 else ~upper
            score = count_bits(W) * WT + count_bits(W & good) * WG + STATIC[cell]
            if WR:
                score -= count_bits(replies) * WR
            if WF and forced != U0:
                score += WF
            if WL:
                score += (count_bits(W & ~legal) * WL + count_bits(W & ~legal & good) * WLG)
            if WA and (W & (move << U1)) != U0:
                score -= WA
            if WD:
                score += count_bits(W & ~(TW << U1)) * WD
            if WV and (W & ((W & good) << U1)) != U0:
                score += WV
            i = n
            while i > 0 and c_score[base + i - 1] < score:
                c_score[base + i] = c_score[base + i - 1]
                c_move[base + i] = c_move[base + i - 1]
                c_reply[base + i] = c_reply[base + i - 1]
                i -= 1
            c_score[base + i] = score
            c_move[base + i] = move
            c_reply[base + i] = replies
            n += 1
        if not done:
            bound = (cells - 3 - p) // 2
            if p + 1 >= cells - 2:
                best = 0
                done = True
            elif bound <= a:
                best = bound
                done = True
            else:
                # claimeven bound for us when the child's mover leads (even empties)
                left = cells - p - 1
                if CLAIM and a < 1 and (left & 1) == 0 and left >= CLAIM_MIN:
                    for i in range(n):
                        move = c_move[base + i]
                        q = occ | move
                        empty = board & ~q
                        legal = (q + bottom) & board
                        theirs = opp | (empty & ~upper) | legal
                        if not rules.has_run(geometry, theirs):
                            if a < 0:
                                best = 0
                                done = True
                                break
                            ours = own | move | (empty & upper & ~legal)
                            if rules.has_run(geometry, ours):
                                best = 1
                                done = True
                                break
                if not done and left >= ETC_MIN and n > 1:
                    ca = -a - 1
                    for i in range(n):
                        q = occ | c_move[base + i]
                        key = opp + q
                        if p + 1 <= mirror_plies:
                            key = min(key, rules.mirror(geometry, key))
                        slot, tag = slot_of(table, key, key_bits, table_bits)
                        prefetch(table, slot)
                    m = 0
                    for i in range(n):
                        q = occ | c_move[base + i]
                        key = opp + q
                        if p + 1 <= mirror_plies:
                            key = min(key, rules.mirror(geometry, key))
                        slot, tag = slot_of(table, key, key_bits, table_bits)
                        entry = table[slot]
                        keep = True
                        if entry != U0 and (entry >> np.uint64(14)) == tag:
                            hi = np.int64(entry & np.uint64(127)) - BIAS
                            lo = np.int64((entry >> np.uint64(7)) & np.uint64(127)) - BIAS
                            if hi <= ca:
                                best = -hi
                                done = True
                                break
                            if lo > ca:
                                best = max(best, -lo)
                                keep = False
                        if keep:
                            c_move[base + m] = c_move[base + i]
                            c_reply[base + m] = c_reply[base + i]
                            m += 1
                    if not done:
                        n = m
                        if n == 0:
                            done = True
        i = 0
        # ---- go down to the next child, or back up
        while True:
            if not done:
                if i < n:
                    f_own[d] = own
                    f_occ[d] = occ
                    f_best[d] = best
                    f_next[d] = i + 1
                    f_count[d] = n
                    move = c_move[base + i]
                    moves = c_reply[base + i]
                    child_own = own ^ occ
                    occ = occ | move
                    own = child_own
                    d += 1
                    # probe
                    p = root_plies + d
                    a = threshold if (d & 1) == 0 else -threshold - 1
                    if cells - p >= TT_MIN:
                        key = own + occ
                        if p <= mirror_plies:
                            key = min(key, rules.mirror(geometry, key))
                        slot, tag = slot_of(table, key, key_bits, table_bits)
                        entry = table[slot]
                        if entry != U0 and (entry >> np.uint64(14)) == tag:
                            hi = np.int64(entry & np.uint64(127)) - BIAS
                            lo = np.int64((entry >> np.uint64(7)) & np.uint64(127)) - BIAS
                            if hi <= a:
                                best = hi
                                done = True
                            elif lo > a:
                                best = lo
                                done = True
                    if not done:
                        break  # expand it
                    # resolved from the table: fall to return without storing
                    value = best
                else:
                    # all children failed low
                    value = best
                    if cells - (root_plies + d) >= TT_MIN:
                        key = own + occ
                        if root_plies + d <= mirror_plies:
                            key = min(key, rules.mirror(geometry, key))
                        slot, tag = slot_of(table, key, key_bits, table_bits)
                        entry = table[slot]
                        lo = -63
                        if entry != U0 and (entry >> np.uint64(14)) == tag:
                            lo = np.int64((entry >> np.uint64(7)) & np.uint64(127)) - BIAS
                        table[slot] = (tag << np.uint64(14)) | np.uint64((lo + BIAS) * 128 + value + BIAS)
            else:
                value = best
            # return value to parent
            done = False
            while True:
                if d == 0:
                    counters[0] += nodes
                    return value
                d -= 1
                value = -value
                own = f_own[d]
                occ = f_occ[d]
                best = max(f_best[d], value)
                i = f_next[d]
                n = f_count[d]
                base = d * 32
                a = threshold if (d & 1) == 0 else -threshold - 1
                if value > a:
                    p = root_plies + d
                    if cells - p >= TT_MIN:
                        key = own + occ
                        if p <= mirror_plies:
                            key = min(key, rules.mirror(geometry, key))
                        slot, tag = slot_of(table, key, key_bits, table_bits)
                        entry = table[slot]
                        hi = 63
                        if entry != U0 and (entry >> np.uint64(14)) == tag:
                            hi = np.int64(entry & np.uint64(127)) - BIAS
                        table[slot] = (tag << np.uint64(14)) | np.uint64((value + BIAS) * 128 + hi + BIAS)
                    if HIST and n > 1:
                        h = history[p & 1]
                        bonus = min(HB, cells - p)
                        k = lowest_bit(c_move[base + i - 1])
                        h[k] += bonus - h[k] * bonus // HMAX
                        for j in range(i - 1):
                            k = lowest_bit(c_move[base + j])
                            h[k] -= bonus + h[k] * bonus // HMAX
                    continue
                break
            # not a cutoff: continue with next child at this d


@numba.njit(cache=True)
def solve_one(geometry, own, occ, lo, hi, table, key_bits, table_bits, f_own, f_occ, f_best, f_next, f_count, c_move, c_reply, c_score, history, counters):
    cells = geometry.cells
    plies = count_bits(occ)
    if plies == cells:
        return 0
    legal = rules.legal_cells(geometry, occ)
    W = rules.winning_cells(geometry, own, occ)
    if (legal & W) != U0:
        return (cells + 1 - plies) // 2
    T = rules.winning_cells(geometry, own ^ occ, occ)
    moves = legal & ~(T >> U1)
    forced = legal & T
    if forced != U0:
        if (forced & (forced - U1)) != U0:
            moves = U0
        else:
            moves &= forced
    if moves == U0:
        return -(cells - plies) // 2
    if plies >= cells - 2:
        return 0
    mirror_plies = 0
    if (own & rules.mirror(geometry, own ^ occ)) == U0:
        mirror_plies = 14
    for i in range(2):
        for j in range(64):
            history[i, j] = 0
    # centre preference
    for c in range(geometry.columns):
        for r in range(geometry.rows):
            cell = c * (geometry.rows + 1) + r
            v = min(c, geometry.columns - 1 - c) * 2
    lo = max(lo, -((cells - 2 - plies) // 2))
    hi = min(hi, (cells - 1 - plies) // 2)
    while lo < hi:
        mid = lo + (hi - lo) // 2
        if mid <= 0 and lo // 2 < mid:
            mid = -(-lo // 2)
        elif mid >= 0 and hi // 2 > mid:
            mid = hi // 2
        v = null_window(geometry, own, occ, moves, plies, mid, table, key_bits, table_bits, mirror_plies, f_own, f_occ, f_best, f_next, f_count, c_move, c_reply, c_score, history, counters)
        if v <= mid:
            hi = min(hi, v)
        else:
            lo = max(lo, v)
    return lo
