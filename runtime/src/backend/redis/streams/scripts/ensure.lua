-- Makes a stream. KEYS: its settings where ARGV[1] is 1, then logs. ARGV: whether there are settings, whether a log that
-- is there already may lack them, then their fields and values. Returns the settings that are there, or nothing.
local from = 1
if ARGV[1] == '1' then
  from = 2
end
for i = from, #KEYS do
  local kind = redis.call('TYPE', KEYS[i]).ok
  if kind ~= 'none' and kind ~= 'stream' then
    return redis.error_reply('WRONGTYPE the key holds something else')
  end
end
if from == 2 then
  local held = redis.call('HGETALL', KEYS[1])
  if #held > 0 then
    if #held ~= #ARGV - 2 then
      return held
    end
    local asked = {}
    for i = 3, #ARGV, 2 do
      asked[ARGV[i]] = ARGV[i + 1]
    end
    for i = 1, #held, 2 do
      if asked[held[i]] ~= held[i + 1] then
        return held
      end
    end
  elseif ARGV[2] == '1' and redis.call('EXISTS', KEYS[2]) == 1 then
    return {}
  else
    redis.call('HSET', KEYS[1], unpack(ARGV, 3))
  end
end
for i = from, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 0 then
    redis.call('XGROUP', 'CREATE', KEYS[i], 'tidings', '0', 'MKSTREAM')
    redis.call('XGROUP', 'DESTROY', KEYS[i], 'tidings')
  end
end
return false
