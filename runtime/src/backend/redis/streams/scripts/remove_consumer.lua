-- Hands what is pending for a consumer to another, so many at a time, and removes it when nothing is left. KEYS: log. ARGV:
-- group, consumer, count, and the heir where there is one. Returns how many were handed over, and 1 when it is removed, 0
-- when there is more, -1 when there is no heir for it, -2 when some of it was trimmed away, which a claim would hide.
local pending = redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', ARGV[3], ARGV[2])
if #pending > 0 and not ARGV[4] then
  return {0, -1}
end
local handed = 0
if #pending > 0 then
  local ids = {}
  for i, entry in ipairs(pending) do
    ids[i] = entry[1]
    if #redis.call('XRANGE', KEYS[1], ids[i], ids[i]) == 0 then
      return {0, -2}
    end
  end
  ids[#ids + 1] = 'JUSTID'
  handed = #redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[4], 0, unpack(ids))
  if #pending == tonumber(ARGV[3]) then
    return {handed, 0}
  end
end
redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
return {handed, 1}
