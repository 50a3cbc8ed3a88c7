using System;
using System.Collections;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net;
using System.Security.Cryptography;
using System.Text;
using System.Text.RegularExpressions;
using System.Threading;
using Map = System.Collections.Generic.Dictionary<string, object>;

namespace Playmeter.Tests
{
    /// <summary>
    /// Runs the client with plain .NET: the shared cases of <c>sdk/conformance</c> with a transport whose responses the case
    /// chooses, the queue's file, and, if PLAYMETER_URL is set, a real server.
    /// </summary>
    public static class Harness
    {
        private static int failed;
        private static int passed;

        public static int Main(string[] arguments)
        {
            var folder = arguments[0];
            Map events = ReadFile(Path.Combine(folder, "events.json")), liveops = ReadFile(Path.Combine(folder, "liveops.json"));
            foreach (Map test in (List<object>)events["cases"])
            {
                Run((string)test["name"], () => new EventsCase(test).Run());
            }
            foreach (Map test in (List<object>)liveops["cases"])
            {
                Run((string)test["name"], () => new LiveopsCase(test, (Map)liveops["defaults"]).Run());
            }
            Run("a queue in a file survives the end of the program", QueueTests.SurvivesTheEnd);
            Run("a line that a crash has cut off is ignored", QueueTests.IgnoresCutLine);
            Run("a queue in a file is bounded", QueueTests.IsBounded);
            Run("a player without an id keeps a random one", QueueTests.KeepsPlayer);
            Run("JSON is read as it was written", JsonTests.RoundTrip);
            Run("text that is not JSON is rejected", JsonTests.Rejects);
            if (Environment.GetEnvironmentVariable("PLAYMETER_URL") != null)
            {
                Run("server: events, variables and scores", ServerTests.EventsVariablesAndScores);
                Run("server: a wrong key is an error", ServerTests.WrongKey);
            }
            Console.WriteLine(passed + " passed, " + failed + " failed");
            return failed == 0 && passed > 20 ? 0 : 1;
        }

        private static Map ReadFile(string path)
        {
            object value;
            Check.That(Json.TryRead(File.ReadAllText(path), out value), path + " is not JSON");
            return (Map)value;
        }

        private static void Run(string name, Action test)
        {
            try
            {
                test();
                passed++;
            }
            catch (Exception failure)
            {
                failed++;
                Console.WriteLine("FAILED " + name + ": " + failure);
            }
        }
    }

    internal static class Check
    {
        internal static void That(bool condition, string message)
        {
            if (!condition)
            {
                throw new Exception(message);
            }
        }

        internal static void Equal(object expected, object actual, string what)
        {
            var isNumber = expected is long && actual is double;
            That(isNumber ? (long)expected == (double)actual : Equals(expected, actual), what + ": expected " + Json.Write(expected) + ", got " + Json.Write(actual));
        }

        /// <summary>Matches a value with what a case expects; see the description in the files.</summary>
        internal static void Match(object expected, object actual, Dictionary<string, object> ids, string what)
        {
            var map = expected as Map;
            var list = expected as List<object>;
            var text = expected as string;
            if (map != null)
            {
                var found = actual as Map;
                That(found != null, what + " is not an object: " + Json.Write(actual));
                foreach (var field in map)
                {
                    if (field.Key == "absent")
                    {
                        foreach (string name in (List<object>)field.Value)
                        {
                            That(!found.ContainsKey(name), what + "." + name + " exists");
                        }
                        continue;
                    }
                    That(found.ContainsKey(field.Key), what + "." + field.Key + " is missing in " + Json.Write(actual));
                    Match(field.Value, found[field.Key], ids, what + "." + field.Key);
                }
            }
            else if (list != null)
            {
                var found = (List<object>)actual;
                Equal(list.Count, found.Count, what + ": length");
                for (var i = 0; i < list.Count; i++)
                {
                    Match(list[i], found[i], ids, what + "[" + i + "]");
                }
            }
            else if (text == "$uuid7")
            {
                const string Form = "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$";
                That(Regex.IsMatch((string)actual, Form), what + " is not a UUID of version 7: " + actual);
            }
            else if (text == "$ms")
            {
                That((long)actual > 1600000000000, what + " is not a time");
            }
            else if (text == "$text")
            {
                That(actual is string, what + " is not a text");
            }
            else if (text != null && text.StartsWith("$id:"))
            {
                if (!ids.ContainsKey(text))
                {
                    ids[text] = actual;
                }
                Equal(ids[text], actual, what);
            }
            else if (text != null && text.StartsWith("$other:"))
            {
                That(!Equals(ids["$id:" + text.Substring(7)], actual), what + " is the same again");
            }
            else
            {
                Equal(expected, actual, what);
            }
        }
    }

    /// <summary>A server in memory: it records requests and responds as the case says.</summary>
    internal sealed class PlannedTransport : ITransport
    {
        internal readonly List<TransportRequest> Requests = new List<TransportRequest>();
        internal Func<TransportRequest, Map> Respond;

        public void Send(TransportRequest request, Action<TransportResponse> done)
        {
            Requests.Add(request);
            var planned = Respond(request);
            var response = new TransportResponse();
            if (planned == null)
            {
                response.Failure = "the connection was cut";
                done(response);
                return;
            }
            response.Status = (int)(long)planned["status"];
            object value;
            if (planned.TryGetValue("body", out value))
            {
                response.Body = Json.Write(value);
            }
            else if (planned.TryGetValue("code", out value))
            {
                response.Body = Json.Write(new Map { { "type", "/problems/" + value }, { "status", response.Status } });
            }
            if (planned.TryGetValue("retry_after_s", out value))
            {
                response.Headers["retry-after"] = value.ToString();
            }
            if (planned.TryGetValue("etag", out value))
            {
                response.Headers["etag"] = (string)value;
            }
            done(response);
        }
    }

    internal static class Client
    {
        internal static PlaymeterOptions Options(Map from)
        {
            var options = new PlaymeterOptions { Sessions = false, FlushIntervalS = 1e9 };
            foreach (var option in from)
            {
                switch (option.Key)
                {
                    case "player": options.Player = (string)option.Value; break;
                    case "name": options.Name = (string)option.Value; break;
                    case "version": options.Version = (string)option.Value; break;
                    case "platform": options.Platform = (string)option.Value; break;
                    case "source": options.Source = (string)option.Value; break;
                    case "country": options.Country = (string)option.Value; break;
                    case "sessions": options.Sessions = (bool)option.Value; break;
                    case "defaults": options.Defaults = (Map)option.Value; break;
                    case "queue_events_max": options.QueueEventsMax = (int)(long)option.Value; break;
                    default: throw new Exception("unknown option " + option.Key);
                }
            }
            return options;
        }

        /// <summary>Ticks until a callback was called.</summary>
        internal static void Wait(PlaymeterClient client, Func<bool> isDone)
        {
            for (var i = 0; !isDone(); i++)
            {
                Check.That(i < 3000, "the callback was not called");
                client.Tick();
                Thread.Sleep(10);
            }
        }

        /// <summary>Flushes and returns the code of the error, or null.</summary>
        internal static string Flush(PlaymeterClient client, bool closes)
        {
            string code = null;
            var isDone = false;
            Action<PlaymeterError> done = error =>
            {
                code = error == null ? null : error.Code;
                isDone = true;
            };
            if (closes)
            {
                client.Close(done);
            }
            else
            {
                client.Flush(done);
            }
            Wait(client, () => isDone);
            return code;
        }

        internal static string Text(Map call, string name)
        {
            object value;
            return call.TryGetValue(name, out value) ? (string)value : null;
        }

        internal static List<object> List(Map map, string name)
        {
            object value;
            return map.TryGetValue(name, out value) ? (List<object>)value : new List<object>();
        }
    }

    internal sealed class EventsCase
    {
        private readonly Map test;

        internal EventsCase(Map test)
        {
            this.test = test;
        }

        internal void Run()
        {
            var planned = new Queue<object>(Client.List(test, "responses"));
            var receipt = new Map { { "accepted", 1L }, { "duplicate", 0L }, { "late", 0L }, { "limited", 0L }, { "invalid", 0L } };
            var accepted = new Map { { "status", 202L }, { "body", receipt } };
            var transport = new PlannedTransport { Respond = _ => planned.Count > 0 ? (Map)planned.Dequeue() : accepted };
            var client = new PlaymeterClient("http://server/", "pm_pk_test", Client.Options((Map)test["options"]), transport);
            var lost = new List<object>();
            client.EventsLost += (code, count) => lost.Add(new Map { { "code", code }, { "count", (long)count } });
            foreach (Map call in (List<object>)test["calls"])
            {
                Call(client, call);
            }
            var ids = new Dictionary<string, object>();
            var bodies = transport.Requests.Select(request => ReadBody(request.Body)).ToList();
            Check.Match(test["requests"], bodies, ids, "requests");
            Check.Match(test["reported"], lost, ids, "reported");
        }

        internal static object ReadBody(string body)
        {
            object value;
            Check.That(Json.TryRead(body, out value), "the body is not JSON: " + body);
            return value;
        }

        private static void Call(PlaymeterClient client, Map call)
        {
            switch ((string)call["call"])
            {
                case "track":
                    client.Track((string)call["event"], Details(call));
                    break;
                case "identify":
                    client.Identify((string)call["player"]);
                    break;
                case "flush":
                    Check.Equal(Client.Text(call, "error"), Client.Flush(client, false), "the error of flush");
                    break;
                case "close":
                    Check.Equal(Client.Text(call, "error"), Client.Flush(client, true), "the error of close");
                    break;
                default:
                    throw new Exception("unknown call " + call["call"]);
            }
        }

        private static EventDetails Details(Map call)
        {
            object value;
            var details = new EventDetails { Level = Client.Text(call, "level") };
            if (call.TryGetValue("value", out value))
            {
                details.Value = Convert.ToDouble(value);
            }
            if (call.TryGetValue("ts", out value))
            {
                details.TimeMs = (long)value;
            }
            if (call.TryGetValue("props", out value))
            {
                details.Props = ((Map)value).ToDictionary(prop => prop.Key, prop => Repeated(prop.Value));
            }
            return details;
        }

        private static object Repeated(object value)
        {
            var text = value as string;
            return text != null && text.StartsWith("$repeat:") ? new string('x', int.Parse(text.Substring(8))) : value;
        }
    }

    internal sealed class LiveopsCase
    {
        private readonly Map test;
        private readonly Map defaults;

        internal LiveopsCase(Map test, Map defaults)
        {
            this.test = test;
            this.defaults = defaults;
        }

        internal void Run()
        {
            object responses;
            test.TryGetValue("responses", out responses);
            var planned = new Dictionary<string, Queue<object>>();
            foreach (var route in (Map)responses ?? new Map())
            {
                planned[route.Key] = new Queue<object>((List<object>)route.Value);
            }
            var transport = new PlannedTransport();
            transport.Respond = request =>
            {
                var route = Route(request);
                var isPlanned = planned.ContainsKey(route) && planned[route].Count > 0;
                return (Map)(isPlanned ? planned[route].Dequeue() : defaults[route]);
            };
            var client = new PlaymeterClient("http://server", "pm_pk_test", Client.Options((Map)test["options"]), transport);
            foreach (Map call in (List<object>)test["calls"])
            {
                Call(client, call);
            }
            var expected = ((List<object>)test["requests"]).Cast<Map>().ToList();
            var routes = string.Join(", ", transport.Requests.Select(Route));
            Check.Equal(string.Join(", ", expected.Select(request => (string)request["route"])), routes, "routes");
            var ids = new Dictionary<string, object>();
            for (var i = 0; i < expected.Count; i++)
            {
                CheckRequest(expected[i], transport.Requests[i], ids);
            }
        }

        private static string Route(TransportRequest request)
        {
            return request.Method + " " + new Uri(request.Url).AbsolutePath;
        }

        private void Call(PlaymeterClient client, Map call)
        {
            var isDone = false;
            switch ((string)call["call"])
            {
                case "identify":
                    client.Identify((string)call["player"]);
                    return;
                case "load_vars":
                    var loaded = false;
                    client.Vars.Load(success =>
                    {
                        loaded = success;
                        isDone = true;
                    });
                    Client.Wait(client, () => isDone);
                    Check.Equal(call["loaded"], loaded, "loaded");
                    foreach (var value in (Map)call["vars"])
                    {
                        Check.Equal(value.Value, client.Vars.Get(value.Key), value.Key);
                    }
                    return;
            }
            Map result = null;
            PlaymeterError error = null;
            Action<Map, PlaymeterError> done = (answer, failure) =>
            {
                result = answer;
                error = failure;
                isDone = true;
            };
            var board = client.Board((string)call["table"]);
            if ((string)call["call"] == "submit")
            {
                board.Submit(Convert.ToDouble(call["score"]), null, done);
            }
            else
            {
                board.List(((Map)call["query"]).ToDictionary(pair => pair.Key, pair => (string)pair.Value), done);
            }
            Client.Wait(client, () => isDone);
            Check.Equal(Client.Text(call, "error"), error == null ? null : error.Code, "the error");
            object expected;
            if (call.TryGetValue("result", out expected))
            {
                Check.Match(expected, result, new Dictionary<string, object>(), "result");
            }
        }

        private void CheckRequest(Map expected, TransportRequest request, Dictionary<string, object> ids)
        {
            object value;
            foreach (string name in Client.List(expected, "absent"))
            {
                Check.That(!request.Headers.ContainsKey(name), name + " exists");
            }
            if (expected.TryGetValue("query", out value))
            {
                var pairs = new Uri(request.Url).Query.TrimStart('?').Split('&').Select(pair => pair.Split('='));
                var query = pairs.ToDictionary(pair => pair[0], pair => (object)Uri.UnescapeDataString(pair[1]));
                Check.Match(value, query, ids, "query");
            }
            if (expected.TryGetValue("body", out value))
            {
                Check.Match(value, EventsCase.ReadBody(request.Body), ids, "body");
            }
            if (expected.TryGetValue("headers", out value))
            {
                foreach (var header in (Map)value)
                {
                    Check.That(request.Headers.ContainsKey(header.Key), header.Key + " is missing");
                    var found = request.Headers[header.Key];
                    if ((string)header.Value == "$signature")
                    {
                        CheckSignature(found, request);
                    }
                    else
                    {
                        Check.Match(header.Value, found, ids, header.Key);
                    }
                }
            }
        }

        private void CheckSignature(string header, TransportRequest request)
        {
            var parts = header.Split(';');
            Check.Equal("v1 session-1", parts[0] + " " + parts[1], "the signature's session");
            var session = (Map)((Map)defaults["POST /v1/session"])["body"];
            var key = Convert.FromBase64String((string)session["key"] + "==");
            var digest = Hex(SHA256.Create().ComputeHash(Encoding.UTF8.GetBytes(request.Body)));
            var path = new Uri(request.Url).AbsolutePath;
            var message = string.Join("\n", new[] { parts[2], parts[3], request.Method, path, digest });
            Check.Equal(Hex(new HMACSHA256(key).ComputeHash(Encoding.UTF8.GetBytes(message))), parts[4], "the signature");
        }

        private static string Hex(byte[] bytes)
        {
            return BitConverter.ToString(bytes).Replace("-", "").ToLowerInvariant();
        }
    }

    internal static class QueueTests
    {
        private static PlaymeterClient Open(string file, PlannedTransport transport, Action<PlaymeterOptions> change = null)
        {
            var options = new PlaymeterOptions { Player = "ann", Sessions = false, QueueFile = file, FlushIntervalS = 1e9 };
            if (change != null)
            {
                change(options);
            }
            return new PlaymeterClient("http://server", "pm_pk_test", options, transport);
        }

        private static List<string> Sent(PlannedTransport transport)
        {
            var bodies = transport.Requests.Select(request => (Map)EventsCase.ReadBody(request.Body));
            return bodies.SelectMany(body => ((List<object>)body["events"]).Select(one => (string)((Map)one)["event"])).ToList();
        }

        private static PlannedTransport Accepting()
        {
            return new PlannedTransport { Respond = _ => new Map { { "status", 202L }, { "body", new Map() } } };
        }

        private static void InFile(Action<string> test)
        {
            var file = Path.GetTempFileName();
            File.Delete(file);
            try
            {
                test(file);
            }
            finally
            {
                File.Delete(file);
            }
        }

        internal static void SurvivesTheEnd()
        {
            InFile(file =>
            {
                var offline = new PlannedTransport { Respond = _ => null };
                var first = Open(file, offline);
                first.Track("sent");
                first.Track("line", new EventDetails { Props = new Map { { "text", "a\nb \"quoted\" \u00e9" } } });
                Check.Equal("unreachable", Client.Flush(first, false), "offline");
                var online = Accepting();
                var second = Open(file, online);
                second.Tick();
                Check.Equal("sent,line", string.Join(",", Sent(online)), "the next start sends them");
                var third = Accepting();
                Open(file, third).Tick();
                Check.Equal(0, third.Requests.Count, "each once");
            });
        }

        internal static void IgnoresCutLine()
        {
            InFile(file =>
            {
                Open(file, Accepting()).Track("whole");
                File.AppendAllText(file, "+0190-cut {\"event\":\"cut\"");
                var transport = Accepting();
                var client = Open(file, transport);
                client.Track("later");
                Check.Equal(null, Client.Flush(client, false), "flush");
                Check.Equal("whole,later", string.Join(",", Sent(transport)), "events");
            });
        }

        internal static void IsBounded()
        {
            InFile(file =>
            {
                var lost = 0;
                Action<PlaymeterOptions> small = options =>
                {
                    options.QueueEventsMax = 10;
                    options.QueueCharsMax = 2000;
                };
                var client = Open(file, new PlannedTransport { Respond = _ => null }, small);
                client.EventsLost += (code, count) => lost += count;
                for (var i = 0; i < 1000; i++)
                {
                    client.Track("jump");
                }
                Check.Equal(990, lost, "reported");
                Check.That(new FileInfo(file).Length < 5 * 2000, "the file has " + new FileInfo(file).Length + " bytes");
                var transport = Accepting();
                var next = Open(file, transport, small);
                next.Tick();
                Check.Equal(10, Sent(transport).Count, "kept");
            });
        }

        internal static void KeepsPlayer()
        {
            InFile(file =>
            {
                Action<PlaymeterOptions> stored = options =>
                {
                    options.Player = null;
                    options.PlayerFile = file;
                };
                var players = new[] { 0, 1 }.Select(_ => Open(null, Accepting(), stored).Player).ToList();
                Check.Equal(players[0], players[1], "the player");
                Check.Match("$uuid7", players[0], new Dictionary<string, object>(), "the player");
            });
        }
    }

    internal static class JsonTests
    {
        internal static void RoundTrip()
        {
            const string Text = "{\"a\":[1,-2.5,1e+20,true,false,null,\"\u00e9\\u0007\\\\\\\"\"],\"b\":{\"c\":[]}}";
            object value;
            Check.That(Json.TryRead(Text, out value), "it is JSON");
            Check.Equal(Text.ToLowerInvariant(), Json.Write(value).ToLowerInvariant(), "written again");
            Check.Equal("\"\\ufffd\"", Json.Write("\ud800"), "half of a pair");
        }

        internal static void Rejects()
        {
            object value;
            foreach (var text in new[] { "", "{", "[1,", "{\"a\"}", "tru", "1 2", "\"a", "\"\\u12", new string('[', 5000), "nul" })
            {
                Check.That(!Json.TryRead(text, out value), text.Substring(0, Math.Min(20, text.Length)));
            }
        }
    }

    /// <summary>Sends requests with HttpWebRequest and waits for each.</summary>
    internal sealed class NetTransport : ITransport
    {
        public void Send(TransportRequest request, Action<TransportResponse> done)
        {
            var response = new TransportResponse();
            try
            {
                var web = (HttpWebRequest)WebRequest.Create(request.Url);
                web.Method = request.Method;
                web.AllowAutoRedirect = false;
                web.ServicePoint.Expect100Continue = false;
                foreach (var header in request.Headers)
                {
                    if (header.Key == "Content-Type")
                    {
                        web.ContentType = header.Value;
                    }
                    else
                    {
                        web.Headers[header.Key] = header.Value;
                    }
                }
                if (request.Body != null)
                {
                    var bytes = Encoding.UTF8.GetBytes(request.Body);
                    using (var stream = web.GetRequestStream())
                    {
                        stream.Write(bytes, 0, bytes.Length);
                    }
                }
                using (var answer = (HttpWebResponse)web.GetResponse())
                {
                    Read(answer, response);
                }
            }
            catch (WebException failure)
            {
                response.Failure = failure.Message;
                if (failure.Response != null)
                {
                    Read((HttpWebResponse)failure.Response, response);
                }
            }
            done(response);
        }

        private static void Read(HttpWebResponse answer, TransportResponse response)
        {
            response.Status = (int)answer.StatusCode;
            foreach (var name in answer.Headers.AllKeys)
            {
                response.Headers[name.ToLowerInvariant()] = answer.Headers[name];
            }
            using (var reader = new StreamReader(answer.GetResponseStream()))
            {
                response.Body = reader.ReadToEnd();
            }
        }
    }

    internal static class ServerTests
    {
        private static readonly string Url = Environment.GetEnvironmentVariable("PLAYMETER_URL");
        private static readonly string Key = Environment.GetEnvironmentVariable("PLAYMETER_PUBLIC_KEY");
        private static readonly string Secret = Environment.GetEnvironmentVariable("PLAYMETER_SECRET_KEY");
        private static readonly string RunId = Guid.NewGuid().ToString("N").Substring(0, 8);

        private static object Request(string method, string path, string body)
        {
            var request = new TransportRequest { Method = method, Url = Url + path, Body = body };
            request.Headers["Authorization"] = "Bearer " + Secret;
            if (body != null)
            {
                request.Headers["Content-Type"] = "application/json";
            }
            object value = null;
            new NetTransport().Send(request, response =>
            {
                var isSuccess = response.Status >= 200 && response.Status < 300;
                Check.That(isSuccess && Json.TryRead(response.Body, out value), path + ": " + response.Status + response.Body);
            });
            return value;
        }

        internal static void EventsVariablesAndScores()
        {
            Request("PUT", "/v1/vars/unity_" + RunId, "{\"value\": 3}");
            var options = new PlaymeterOptions { Player = "ann-" + RunId, Name = "Ann", Version = "1.2" };
            options.Defaults["unity_" + RunId] = 1L;
            var client = new PlaymeterClient(Url, Key, options, new NetTransport());
            client.EventsLost += (code, count) => { throw new Exception(count + " events lost: " + code); };
            Check.Equal(1L, client.Vars.Get("unity_" + RunId), "the default");
            var loaded = false;
            client.Vars.Load(success => loaded = success);
            Check.That(loaded, "variables are loaded");
            Check.Equal(3L, client.Vars.Get("unity_" + RunId), "the value of the server");
            for (var i = 0; i < 700; i++)
            {
                client.Track("jump_" + RunId, new EventDetails { Value = i, Props = new Map { { "from", "tr\u00e9e" } } });
            }
            Check.Equal(null, Client.Flush(client, false), "flush");
            client.Identify("ann2-" + RunId, "Ann");
            var isDone = false;
            client.Board("stars_" + RunId).Submit(120, null, (answer, error) =>
            {
                Check.That(error == null, "submit: " + error);
                Check.Equal(1L, answer["rank"], "the rank");
                isDone = true;
            });
            Client.Wait(client, () => isDone);
            client.Board("stars_" + RunId).List(new Dictionary<string, string> { { "window", "all" } }, (page, error) =>
            {
                Check.That(error == null, "list: " + error);
                var row = (Map)((List<object>)page["rows"])[0];
                Check.Equal("ann2-" + RunId, row["player"], "the player of the score");
                Check.Equal(true, row["verified"], "it was signed");
            });
            Check.Equal(null, Client.Flush(client, true), "close");
            foreach (var expected in new Dictionary<string, long> { { "jump_" + RunId, 700 } })
            {
                var query = (Map)Request("GET", "/v1/query?step=all&metric=" + expected.Key, null);
                var series = (Map)((List<object>)query["series"])[0];
                Check.Equal(expected.Value, series["total"], expected.Key);
            }
        }

        internal static void WrongKey()
        {
            var options = new PlaymeterOptions { Player = "ann", Sessions = false };
            var client = new PlaymeterClient(Url, "pm_pk_wrong", options, new NetTransport());
            var lost = 0;
            client.EventsLost += (code, count) => lost += code == "refused" ? count : 0;
            client.Track("jump");
            Check.Equal(null, Client.Flush(client, false), "the events are rejected for good");
            Check.Equal(1, lost, "reported");
            string code2 = null;
            client.Board("stars").Submit(1, null, (answer, error) => code2 = error.Code);
            Check.Equal("key", code2, "the error of a score");
        }
    }
}
