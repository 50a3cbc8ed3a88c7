using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.Text;

namespace Playmeter
{
    /// <summary>The options of a client.</summary>
    public sealed class PlaymeterOptions
    {
        /// <summary>The player's id. Without one, a random id, which is kept in <see cref="PlayerFile"/>.</summary>
        public string Player;
        /// <summary>The name shown on leaderboards.</summary>
        public string Name;
        public string Version;
        public string Platform;
        public string Source;
        public string Country;
        /// <summary>Sends <c>$session_start</c>, <c>$ping</c> and <c>$session_end</c>.</summary>
        public bool Sessions = true;
        /// <summary>The file that keeps events for the next start; null to keep them in memory only.</summary>
        public string QueueFile;
        /// <summary>The file that keeps a random player's id; null for a new one at each start.</summary>
        public string PlayerFile;
        /// <summary>Beyond it the oldest events are lost and reported.</summary>
        public int QueueEventsMax = 2000;
        /// <summary>The same in characters of JSON.</summary>
        public long QueueCharsMax = 4 << 20;
        public double FlushIntervalS = 5;
        /// <summary>The values of variables that the server does not have.</summary>
        public Dictionary<string, object> Defaults = new Dictionary<string, object>();
    }

    /// <summary>Optional fields of an event.</summary>
    public sealed class EventDetails
    {
        public double? Value;
        public string Level;
        public Dictionary<string, object> Props;
        /// <summary>Milliseconds since 1970; null for now.</summary>
        public long? TimeMs;
    }

    /// <summary>
    /// The client of a game. <see cref="Track"/> never waits for the network and never throws. An event is stored before it is sent,
    /// and is sent until the server has received it.
    ///
    /// All methods are called from one thread, which calls <see cref="Tick"/> regularly, such as once a frame.
    /// </summary>
    public sealed class PlaymeterClient
    {
        private const int BatchEvents = 200;
        private const int BatchChars = 200000;
        /// <summary>The server's limit for one event.</summary>
        private const int EventBytesMax = 65536;
        private const double FirstPingS = 60;
        private const double PingS = 30;
        /// <summary>The server's limit: an event after a longer pause starts a new session.</summary>
        private const double SessionTimeoutS = 30 * 60;

        private readonly PlaymeterOptions options;
        private readonly Api api;
        private readonly QueueStore queue;
        private readonly Uuid7 ids = new Uuid7();
        private readonly Random random = new Random();
        private readonly Stopwatch clock = Stopwatch.StartNew();
        private readonly List<Action<PlaymeterError>> flushing = new List<Action<PlaymeterError>>();
        private string session;
        private double lastEventS;
        private double nextPingS = double.PositiveInfinity;
        private double nextFlushS = double.PositiveInfinity;
        private double notBeforeS;
        private int failures;
        private bool isClosed;

        /// <summary>
        /// Events that were lost, by code and number: <c>queue_full</c>, <c>refused</c>, <c>invalid</c>, <c>closed</c>.
        /// </summary>
        public event Action<string, int> EventsLost;

        /// <summary>Other errors that no callback gets, such as a queue that cannot be written.</summary>
        public event Action<PlaymeterError> Failed;

        /// <summary>The variables of the player.</summary>
        public readonly GameVars Vars;

        /// <summary>Creates a client. Events that an earlier run has left are sent by the next <see cref="Tick"/>.</summary>
        public PlaymeterClient(string url, string key, PlaymeterOptions options, ITransport transport)
        {
            this.options = options;
            var player = options.Player ?? PlayerFile.LoadOrCreate(options.PlayerFile, ids.Next(NowMs()));
            api = new Api(url, key, transport, ids, clock) { Player = player, Name = options.Name };
            queue = new QueueStore(options.QueueFile, options.QueueEventsMax, options.QueueCharsMax, Report);
            Vars = new GameVars(api, options);
            if (queue.Count > 0)
            {
                nextFlushS = 0;
            }
            if (options.Sessions)
            {
                StartSession();
            }
        }

        /// <summary>The player's id.</summary>
        public string Player
        {
            get { return api.Player; }
        }

        internal static long NowMs()
        {
            return (DateTime.UtcNow - new DateTime(1970, 1, 1, 0, 0, 0, DateTimeKind.Utc)).Ticks / TimeSpan.TicksPerMillisecond;
        }

        /// <summary>Queues an event. Its id is assigned here, so the server counts it once however often it is sent.</summary>
        public void Track(string name, EventDetails details = null)
        {
            if (isClosed)
            {
                Lost("closed", 1);
                return;
            }
            var nowS = clock.Elapsed.TotalSeconds;
            if (options.Sessions && session != null && nowS - lastEventS > SessionTimeoutS)
            {
                StartSession();
            }
            lastEventS = nowS;
            var nowMs = NowMs();
            var row = new QueuedEvent { Id = ids.Next(nowMs) };
            var fields = new Dictionary<string, object> { { "event", name }, { "id", row.Id }, { "ts", nowMs }, { "player", Player } };
            Put(fields, "session", session);
            Put(fields, "version", options.Version);
            Put(fields, "platform", options.Platform);
            Put(fields, "source", options.Source);
            Put(fields, "country", options.Country);
            if (details != null)
            {
                Put(fields, "value", details.Value);
                Put(fields, "level", details.Level);
                Put(fields, "props", details.Props);
                Put(fields, "ts", details.TimeMs);
            }
            try
            {
                row.Text = Json.Write(fields);
            }
            catch (ArgumentException)
            {
                Lost("invalid", 1);
                return;
            }
            if (Encoding.UTF8.GetByteCount(row.Text) > EventBytesMax)
            {
                Lost("invalid", 1);
                return;
            }
            Lost("queue_full", queue.Add(row, Report));
            nextFlushS = Math.Min(nextFlushS, nowS + options.FlushIntervalS);
        }

        /// <summary>Sets the player of all later events and the name on leaderboards. Earlier events are linked to the player.</summary>
        public void Identify(string player, string name = null)
        {
            var before = Player;
            api.Identify(player, name ?? api.Name);
            if (before != player)
            {
                Track("$identify", new EventDetails { Props = new Dictionary<string, object> { { "anonymous", before } } });
            }
        }

        /// <summary>Returns a leaderboard. It is created by its first score.</summary>
        public Board Board(string table)
        {
            return new Board(api, table);
        }

        /// <summary>
        /// Sends the queued events. Calls that overlap share one request. <paramref name="done"/> gets null, or the error; the events
        /// then stay queued and are sent later.
        /// </summary>
        public void Flush(Action<PlaymeterError> done = null)
        {
            nextFlushS = double.PositiveInfinity;
            flushing.Add(done ?? (_ => { }));
            if (flushing.Count == 1)
            {
                SendBatch();
            }
        }

        /// <summary>Ends the session and sends the queued events. Later events are lost and reported.</summary>
        public void Close(Action<PlaymeterError> done = null)
        {
            EndSession();
            isClosed = true;
            Flush(done);
        }

        /// <summary>Queues the end of the session without sending it: the next start does, if the queue has a file.</summary>
        public void EndSession()
        {
            if (session != null)
            {
                Track("$session_end");
            }
            session = null;
            nextPingS = double.PositiveInfinity;
        }

        /// <summary>Sends what is due. Call it regularly, such as once a frame.</summary>
        public void Tick()
        {
            var nowS = clock.Elapsed.TotalSeconds;
            if (nowS >= nextPingS)
            {
                nextPingS = nowS + PingS;
                Track("$ping");
            }
            if (nowS >= nextFlushS && flushing.Count == 0)
            {
                Flush();
            }
            api.Tick();
        }

        private void StartSession()
        {
            session = ids.Next(NowMs());
            lastEventS = clock.Elapsed.TotalSeconds;
            nextPingS = lastEventS + FirstPingS;
            Track("$session_start");
        }

        /// <summary>Sends the oldest events, then the next ones, until none is left.</summary>
        private void SendBatch()
        {
            var waitS = notBeforeS - clock.Elapsed.TotalSeconds;
            if (queue.Count == 0)
            {
                failures = 0;
                EndFlush(null);
                return;
            }
            if (waitS > 0)
            {
                nextFlushS = notBeforeS;
                var message = "the server asked to wait " + waitS.ToString("F1", CultureInfo.InvariantCulture) + " s more";
                EndFlush(new PlaymeterError("waiting", message));
                return;
            }
            var batch = queue.Oldest(BatchEvents, BatchChars);
            var body = new StringBuilder("{\"sent_at\":\"");
            body.Append(DateTime.UtcNow.ToString("yyyy-MM-dd'T'HH:mm:ss.fff'Z'", CultureInfo.InvariantCulture)).Append("\",\"events\":[");
            for (var i = 0; i < batch.Count; i++)
            {
                body.Append(i > 0 ? "," : "").Append(batch[i].Text);
            }
            api.Send("POST", "/v1/events", null, body.Append("]}").ToString(), null, (answer, error) => OnSent(batch, answer, error));
        }

        private void OnSent(List<QueuedEvent> batch, ApiAnswer answer, PlaymeterError error)
        {
            if (error != null && error.IsTemporary)
            {
                failures++;
                var delayS = error.BackoffS(failures, random);
                var atS = clock.Elapsed.TotalSeconds + delayS;
                if (error.RetryAfterS > 0)
                {
                    notBeforeS = atS;
                }
                nextFlushS = atS;
                EndFlush(error);
                return;
            }
            queue.Remove(batch, Report);
            if (error != null)
            {
                Lost("refused", batch.Count);
            }
            else
            {
                Lost("invalid", answer.Count("invalid") + answer.Count("late") + answer.Count("limited"));
            }
            SendBatch();
        }

        private void EndFlush(PlaymeterError error)
        {
            var waiting = flushing.ToArray();
            flushing.Clear();
            foreach (var done in waiting)
            {
                done(error);
            }
        }

        private void Lost(string code, int count)
        {
            var handler = EventsLost;
            if (count > 0 && handler != null)
            {
                handler(code, count);
            }
        }

        private void Report(PlaymeterError error)
        {
            var handler = Failed;
            if (handler != null)
            {
                handler(error);
            }
        }

        internal static void Put(Dictionary<string, object> fields, string name, object value)
        {
            if (value != null)
            {
                fields[name] = value;
            }
        }
    }
}
