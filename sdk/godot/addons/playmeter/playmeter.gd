extends Node
## The Playmeter client: an autoload that keeps events until the server has received them.
##
## Call `start` once, then `track`. Events are queued in `user://` and sent in batches, with the
## same ids until the server confirms them. The queue is bounded: a game that stays offline loses
## its oldest events.

## Events that were lost: `queue_full`, `refused` or `invalid`.
signal events_lost(code: String, count: int)

const QUEUE_FILE := "user://playmeter_queue.jsonl"
const PLAYER_FILE := "user://playmeter_player.txt"
const BATCH_EVENTS := 200
const BATCH_CHARS := 200_000
const EVENT_CHARS_MAX := 65_536
const TIMEOUT_S := 30.0
const FIRST_PING_S := 60.0
const PING_S := 30.0
const SESSION_TIMEOUT_MS := 30 * 60_000

var player := ""
var player_name := ""
## Sent with every event: `version`, `platform`, `source`, `country`.
var details := {}
var sessions := true
var flush_interval_s := 5.0
var queue_events_max := 2_000

var _url := ""
var _key := ""
## Arrays of id and JSON text, oldest first.
var _queue: Array[Array] = []
var _session := ""
var _last_event_ms := 0
var _next_ping_s := 0.0
var _next_flush_s := INF
## The server's `Retry-After`.
var _not_before_s := 0.0
var _failures := 0
var _sending := false
var _last_stamp := 0
var _file_lines := 0
var _crypto := Crypto.new()


## Connects the client to a server. `options` may contain the public properties of this script.
func start(url: String, key: String, options := {}) -> void:
	_url = url.trim_suffix("/")
	_key = key
	for property: String in options:
		set(property, options[property])
	if player.is_empty():
		player = _stored_player()
	_load_queue()
	if not _queue.is_empty():
		_schedule(0.0)
	if sessions:
		_start_session()


## Queues an event. Optional fields: `value`, `level`, `props`, `ts`.
func track(event: String, fields := {}) -> void:
	var now_ms := _now_ms()
	if sessions and now_ms - _last_event_ms > SESSION_TIMEOUT_MS:
		_start_session()
	_last_event_ms = now_ms
	var id := _uuid()
	var row := {"event": event, "id": id, "ts": now_ms, "player": player}
	if not _session.is_empty():
		row["session"] = _session
	row.merge(details, true)
	row.merge(fields, true)
	var text := JSON.stringify(row)
	if text.length() > EVENT_CHARS_MAX:
		events_lost.emit("invalid", 1)
		return
	_queue.append([row["id"], text])
	_append_to_file(text)
	if _queue.size() > queue_events_max:
		var excess := _queue.size() - queue_events_max
		_queue = _queue.slice(excess)
		events_lost.emit("queue_full", excess)
		# The file may be twice as long as the queue before it is written again.
		if _file_lines > 2 * queue_events_max:
			_save_queue()
	_schedule(flush_interval_s)


## Sets the player of all later events. Earlier events are linked to the player.
func identify(new_player: String, new_name := "") -> void:
	var before := player
	player = new_player
	if not new_name.is_empty():
		player_name = new_name
	if before != player:
		track("$identify", {"props": {"anonymous": before}})


## Sends the queued events. Returns false if that fails; they stay queued and are sent later.
func flush() -> bool:
	_next_flush_s = INF
	if _sending:
		return false
	if Time.get_ticks_msec() / 1000.0 < _not_before_s:
		_next_flush_s = _not_before_s
		return false
	_sending = true
	var sent := true
	while sent and not _queue.is_empty():
		sent = await _send_batch()
	_sending = false
	if sent:
		_failures = 0
	return sent


## Loads the variables of the player. Returns the defaults with the values of the server; offline,
## the defaults.
func load_vars(defaults := {}) -> Dictionary:
	var query := "?player=" + player.uri_encode()
	var response := await _request(HTTPClient.METHOD_GET, "/v1/vars" + query, "", [])
	var values: Dictionary = defaults.duplicate()
	if response["status"] == 200 and response["data"] is Dictionary:
		values.merge(response["data"], true)
	return values


## Submits a score, signed by a session of the player. Returns the response: `status` and `data`.
func submit_score(table: String, score: float, fields := {}) -> Dictionary:
	var path := "/v1/boards/%s/scores" % table.uri_encode()
	var value := {"player": player, "score": score}
	if not player_name.is_empty():
		value["name"] = player_name
	value.merge(fields, true)
	return await _signed(HTTPClient.METHOD_POST, "POST", path, JSON.stringify(value))


## Returns a page of a leaderboard: `status` and `data`.
func list_scores(table: String, window := "all", per_page := 20) -> Dictionary:
	var path := "/v1/boards/%s/scores?window=%s&per_page=%d"
	return await _request(
		HTTPClient.METHOD_GET, path % [table.uri_encode(), window.uri_encode(), per_page], "", []
	)


func _process(_delta: float) -> void:
	var now_s := Time.get_ticks_msec() / 1000.0
	if now_s >= _next_flush_s:
		flush()
	if not _session.is_empty() and now_s >= _next_ping_s:
		_next_ping_s = now_s + PING_S
		track("$ping")


func _notification(what: int) -> void:
	if what == NOTIFICATION_WM_CLOSE_REQUEST and not _session.is_empty():
		# The next start sends it from the file.
		track("$session_end")
		_session = ""


func _start_session() -> void:
	_session = _uuid()
	_last_event_ms = _now_ms()
	_next_ping_s = Time.get_ticks_msec() / 1000.0 + FIRST_PING_S
	track("$session_start")


func _schedule(after_s: float) -> void:
	_next_flush_s = minf(_next_flush_s, Time.get_ticks_msec() / 1000.0 + after_s)


## Sends the oldest events. Returns true if they were received, or rejected and reported.
func _send_batch() -> bool:
	var ids := {}
	var texts := PackedStringArray()
	var chars := 0
	for row in _queue.slice(0, BATCH_EVENTS):
		chars += row[1].length()
		if chars > BATCH_CHARS and not texts.is_empty():
			break
		ids[row[0]] = true
		texts.append(row[1])
	var sent_at := Time.get_datetime_string_from_system(true) + "Z"
	var body := '{"sent_at":"%s","events":[%s]}' % [sent_at, ",".join(texts)]
	var response := await _request(HTTPClient.METHOD_POST, "/v1/events", body, [])
	var status: int = response["status"]
	if status == 0 or status == 408 or status == 429 or status >= 500:
		_failures += 1
		var delay_s := minf(300.0, 0.5 * pow(2.0, minf(_failures, 20))) * randf_range(0.5, 1.0)
		var retry_after_s: float = response["retry_after_s"]
		if retry_after_s > 0.0:
			_not_before_s = Time.get_ticks_msec() / 1000.0 + retry_after_s
		_next_flush_s = INF
		_schedule(retry_after_s + delay_s)
		return false
	if status >= 300:
		events_lost.emit("refused", ids.size())
	elif response["data"] is Dictionary:
		var data: Dictionary = response["data"]
		var lost := int(data.get("invalid", 0)) + int(data.get("late", 0)) + int(data.get("limited", 0))
		if lost > 0:
			events_lost.emit("invalid", lost)
	_queue = _queue.filter(func(row: Array) -> bool: return not ids.has(row[0]))
	_save_queue()
	return true


## Opens a session of the player and sends a request that it signs.
func _signed(method: HTTPClient.Method, verb: String, path: String, body: String) -> Dictionary:
	var identity := JSON.stringify({"player": player, "name": player_name})
	var opened := await _request(HTTPClient.METHOD_POST, "/v1/session", identity, [])
	if opened["status"] != 201:
		return opened
	var data: Dictionary = opened["data"]
	var key_text: String = data["key"].replace("-", "+").replace("_", "/") + "="
	# Signatures carry the server's time, because the clocks of phones are often wrong. A session
	# lasts 15 minutes.
	var at := Time.get_unix_time_from_datetime_string(data["expires_at"].left(19)) - 900
	var nonce := _uuid()
	var message := "\n".join([str(at), nonce, verb, path, body.sha256_text()])
	var mac := _crypto.hmac_digest(
		HashingContext.HASH_SHA256, Marshalls.base64_to_raw(key_text), message.to_utf8_buffer()
	)
	var proof := ";".join(["v1", data["session"], str(at), nonce, mac.hex_encode()])
	var headers := ["X-Playmeter-Signature: " + proof, "Idempotency-Key: " + _uuid()]
	return await _request(method, path, body, headers)


## Returns `status` (0 without a response), `data` and `retry_after_s`.
func _request(method: HTTPClient.Method, path: String, body: String, extra: Array) -> Dictionary:
	var http := HTTPRequest.new()
	http.timeout = TIMEOUT_S
	# A redirect would send the key to another server.
	http.max_redirects = 0
	add_child(http)
	var headers := PackedStringArray(["Authorization: Bearer " + _key])
	if not body.is_empty():
		headers.append("Content-Type: application/json")
	headers.append_array(PackedStringArray(extra))
	var found := {"status": 0, "data": null, "retry_after_s": 0.0}
	if http.request(_url + path, headers, method, body) == OK:
		var completed: Array = await http.request_completed
		if completed[0] == HTTPRequest.RESULT_SUCCESS:
			found["status"] = completed[1]
			found["data"] = JSON.parse_string(completed[3].get_string_from_utf8())
			for header: String in completed[2]:
				if header.to_lower().begins_with("retry-after:"):
					found["retry_after_s"] = maxf(0.0, header.get_slice(":", 1).strip_edges().to_float())
	http.queue_free()
	return found


func _append_to_file(text: String) -> void:
	var file := FileAccess.open(QUEUE_FILE, FileAccess.READ_WRITE)
	if file == null:
		_save_queue()
		return
	file.seek_end()
	file.store_line(text)
	file.close()
	_file_lines += 1


## Replaces the file by one with the queued events only.
func _save_queue() -> void:
	var file := FileAccess.open(QUEUE_FILE + ".new", FileAccess.WRITE)
	if file == null:
		return
	for row in _queue:
		file.store_line(row[1])
	file.close()
	DirAccess.rename_absolute(QUEUE_FILE + ".new", QUEUE_FILE)
	_file_lines = _queue.size()


## Loads the events that an earlier run has left. A line that a crash has cut off is ignored.
func _load_queue() -> void:
	var file := FileAccess.open(QUEUE_FILE, FileAccess.READ)
	if file == null:
		return
	while not file.eof_reached():
		var text := file.get_line()
		var row: Variant = JSON.parse_string(text) if text.ends_with("}") else null
		if row is Dictionary and row.has("id"):
			_queue.append([row["id"], text])
			_file_lines += 1
	file.close()
	_queue = _queue.slice(maxi(0, _queue.size() - queue_events_max))


func _stored_player() -> String:
	var known := FileAccess.get_file_as_string(PLAYER_FILE).strip_edges()
	if not known.is_empty():
		return known
	var created := _uuid()
	var file := FileAccess.open(PLAYER_FILE, FileAccess.WRITE)
	if file != null:
		file.store_string(created)
	return created


func _now_ms() -> int:
	return int(Time.get_unix_time_from_system() * 1000.0)


## Returns a UUID of version 7: 48 bits of milliseconds, a counter of 12 bits, and random bits.
func _uuid() -> String:
	_last_stamp = maxi(_last_stamp + 1, _now_ms() << 12)
	var random := _crypto.generate_random_bytes(8)
	random[0] = (random[0] & 0x3f) | 0x80
	var text := "%012x7%03x%s" % [_last_stamp >> 12, _last_stamp & 0xfff, random.hex_encode()]
	var parts := [text.substr(0, 8), text.substr(8, 4), text.substr(12, 4), text.substr(16, 4)]
	return "-".join(parts + [text.substr(20)])
