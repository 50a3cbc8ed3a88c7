using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.Security.Cryptography;
using System.Text;

namespace Playmeter
{
    /// <summary>The JSON of a successful response.</summary>
    internal sealed class ApiAnswer
    {
        internal int Status;
        internal Dictionary<string, object> Data = new Dictionary<string, object>();
        internal string ETag;

        /// <summary>Returns a number of the response; 0 if it is absent.</summary>
        internal int Count(string name)
        {
            object value;
            return Data.TryGetValue(name, out value) && value is long ? (int)(long)value : 0;
        }

        internal string Text(string name)
        {
            object value;
            return Data.TryGetValue(name, out value) ? value as string : null;
        }
    }

    /// <summary>Requests in the name of a player. Writes are signed, retried and applied once.</summary>
    internal sealed class Api
    {
        private const int Tries = 3;
        /// <summary>A retry that would be delayed longer than this is not made: no player waits that long.</summary>
        private const double WaitSMax = 5;
        /// <summary>The server keeps a session for 15 minutes.</summary>
        private const double LifeS = 900;
        private const double RenewBeforeS = 60;

        private readonly string url;
        private readonly string key;
        private readonly ITransport transport;
        private readonly Uuid7 ids;
        private readonly Stopwatch clock;
        private readonly Random random = new Random();
        private readonly List<KeyValuePair<double, Action>> timers = new List<KeyValuePair<double, Action>>();
        private Session session;

        internal string Player;
        internal string Name;

        private sealed class Session
        {
            internal string Id;
            internal byte[] Key;
            /// <summary>How far the server's clock is ahead: the clocks of phones are often wrong.</summary>
            internal double SkewS;
            internal double RenewAtS;
        }

        internal Api(string url, string key, ITransport transport, Uuid7 ids, Stopwatch clock)
        {
            this.url = url.TrimEnd('/');
            this.key = key;
            this.transport = transport;
            this.ids = ids;
            this.clock = clock;
        }

        internal void Identify(string player, string name)
        {
            Player = player;
            Name = name;
            session = null;
        }

        /// <summary>Makes the retries that are due.</summary>
        internal void Tick()
        {
            var nowS = clock.Elapsed.TotalSeconds;
            foreach (var timer in timers.FindAll(timer => timer.Key <= nowS))
            {
                timers.Remove(timer);
                timer.Value();
            }
        }

        internal static string Segment(string text)
        {
            return Uri.EscapeDataString(text);
        }

        /// <summary>Sends one request. <paramref name="done"/> gets the answer or the error.</summary>
        internal void Send(
            string method,
            string path,
            Dictionary<string, string> query,
            string body,
            Dictionary<string, string> headers,
            Action<ApiAnswer, PlaymeterError> done)
        {
            var request = new TransportRequest { Method = method, Url = url + path + QueryString(query), Body = body };
            request.Headers["Authorization"] = "Bearer " + key;
            if (body != null)
            {
                request.Headers["Content-Type"] = "application/json";
            }
            if (headers != null)
            {
                foreach (var header in headers)
                {
                    request.Headers[header.Key] = header.Value;
                }
            }
            transport.Send(request, response => Read(response, done));
        }

        /// <summary>Reads with retries.</summary>
        internal void Get(string path, Dictionary<string, string> query, Action<ApiAnswer, PlaymeterError> done)
        {
            WithRetries(1, end => Send("GET", path, query, null, null, end), done);
        }

        /// <summary>
        /// Writes with retries. Every try has the same idempotency key: the server applies the write once and repeats its response.
        /// </summary>
        internal void Write(string method, string path, Dictionary<string, object> value, Action<ApiAnswer, PlaymeterError> done)
        {
            string body;
            try
            {
                body = Json.Write(value);
            }
            catch (ArgumentException failure)
            {
                done(null, new PlaymeterError("invalid", failure.Message));
                return;
            }
            var idempotency = ids.Next(PlaymeterClient.NowMs());
            WithRetries(1, end => Attempt(method, path, body, idempotency, false, end), done);
        }

        private void Attempt(
            string method,
            string path,
            string body,
            string idempotency,
            bool isRenewed,
            Action<ApiAnswer, PlaymeterError> done)
        {
            OpenSession((opened, failure) =>
            {
                if (failure != null)
                {
                    done(null, failure);
                    return;
                }
                var headers = new Dictionary<string, string>
                {
                    { "Idempotency-Key", idempotency },
                    { "X-Playmeter-Signature", Sign(opened, method, path, body) },
                };
                Send(method, path, null, body, headers, (answer, error) =>
                {
                    // The session has expired, or the server no longer knows it: retry once with a new one.
                    if (error == null || isRenewed || error.Code != "signature")
                    {
                        done(answer, error);
                        return;
                    }
                    session = null;
                    Attempt(method, path, body, idempotency, true, done);
                });
            });
        }

        private void WithRetries(int tries, Action<Action<ApiAnswer, PlaymeterError>> attempt, Action<ApiAnswer, PlaymeterError> done)
        {
            attempt((answer, error) =>
            {
                var delayS = error == null ? 0 : error.BackoffS(tries, random);
                if (error == null || !error.IsTemporary || tries >= Tries || delayS > WaitSMax)
                {
                    done(answer, error);
                    return;
                }
                Action retry = () => WithRetries(tries + 1, attempt, done);
                timers.Add(new KeyValuePair<double, Action>(clock.Elapsed.TotalSeconds + delayS, retry));
            });
        }

        private void OpenSession(Action<Session, PlaymeterError> done)
        {
            if (session != null && clock.Elapsed.TotalSeconds < session.RenewAtS)
            {
                done(session, null);
                return;
            }
            var renewAtS = clock.Elapsed.TotalSeconds + LifeS - RenewBeforeS;
            var identity = new Dictionary<string, object> { { "player", Player } };
            PlaymeterClient.Put(identity, "name", Name);
            var player = Player;
            Send("POST", "/v1/session", null, Json.Write(identity), null, (answer, error) =>
            {
                if (error != null)
                {
                    done(null, error);
                    return;
                }
                var opened = ReadSession(answer, renewAtS);
                if (opened == null)
                {
                    done(null, new PlaymeterError("unreachable", "the response to POST /v1/session cannot be read"));
                    return;
                }
                // The player may have changed meanwhile.
                if (player == Player)
                {
                    session = opened;
                }
                done(opened, null);
            });
        }

        private static Session ReadSession(ApiAnswer answer, double renewAtS)
        {
            string id = answer.Text("session"), keyText = answer.Text("key"), expiresAt = answer.Text("expires_at");
            DateTime expires;
            var style = DateTimeStyles.AdjustToUniversal | DateTimeStyles.AssumeUniversal;
            if (id == null || keyText == null || !DateTime.TryParse(expiresAt, CultureInfo.InvariantCulture, style, out expires))
            {
                return null;
            }
            var base64 = keyText.Replace('-', '+').Replace('_', '/');
            try
            {
                var secret = Convert.FromBase64String(base64 + new string('=', (4 - base64.Length % 4) % 4));
                var skewS = (expires - DateTime.UtcNow).TotalSeconds - LifeS;
                return new Session { Id = id, Key = secret, SkewS = skewS, RenewAtS = renewAtS };
            }
            catch (FormatException)
            {
                return null;
            }
        }

        private string Sign(Session signer, string method, string path, string body)
        {
            var nowMs = PlaymeterClient.NowMs();
            var at = ((long)Math.Floor(nowMs / 1000.0 + signer.SkewS)).ToString(CultureInfo.InvariantCulture);
            var nonce = ids.Next(nowMs);
            using (var sha256 = SHA256.Create())
            using (var hmac = new HMACSHA256(signer.Key))
            {
                var digest = Hex.Of(sha256.ComputeHash(Encoding.UTF8.GetBytes(body)));
                var message = string.Join("\n", new[] { at, nonce, method, path, digest });
                var mac = Hex.Of(hmac.ComputeHash(Encoding.UTF8.GetBytes(message)));
                return string.Join(";", new[] { "v1", signer.Id, at, nonce, mac });
            }
        }

        private static void Read(TransportResponse response, Action<ApiAnswer, PlaymeterError> done)
        {
            object value;
            var data = Json.TryRead(response.Body ?? "", out value) ? value as Dictionary<string, object> : null;
            var answer = new ApiAnswer { Status = response.Status, Data = data ?? new Dictionary<string, object>() };
            response.Headers.TryGetValue("etag", out answer.ETag);
            if (response.Status == 0)
            {
                done(null, new PlaymeterError("unreachable", response.Failure));
            }
            else if ((response.Status >= 200 && response.Status < 300) || response.Status == 304)
            {
                done(answer, null);
            }
            else
            {
                var kind = answer.Text("type") ?? "";
                var code = kind.Length > 0 ? kind.Substring(kind.LastIndexOf('/') + 1) : "http_" + response.Status;
                var message = answer.Text("detail") ?? answer.Text("title") ?? "status " + response.Status;
                done(null, new PlaymeterError(code, message, response.Status, RetryAfterS(response)));
            }
        }

        private static double RetryAfterS(TransportResponse response)
        {
            string text;
            double seconds;
            response.Headers.TryGetValue("retry-after", out text);
            var isNumber = double.TryParse(text, NumberStyles.Float, CultureInfo.InvariantCulture, out seconds);
            return isNumber ? Math.Max(0, seconds) : 0;
        }

        private static string QueryString(Dictionary<string, string> query)
        {
            var text = new StringBuilder();
            foreach (var pair in query ?? new Dictionary<string, string>())
            {
                text.Append(text.Length == 0 ? '?' : '&').Append(Segment(pair.Key)).Append('=').Append(Segment(pair.Value));
            }
            return text.ToString();
        }
    }
}
