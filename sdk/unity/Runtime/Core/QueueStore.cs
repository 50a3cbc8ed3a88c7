using System;
using System.Collections.Generic;
using System.IO;
using System.Text;

namespace Playmeter
{
    /// <summary>An event that waits to be sent.</summary>
    internal struct QueuedEvent
    {
        internal string Id;
        internal string Text;
    }

    /// <summary>
    /// Keeps events, oldest first, in memory and, with a path, in a file of lines: <c>+ID EVENT</c> for each event, <c>-ID</c> for
    /// each that is done. The queue is bounded: a game that stays offline loses its oldest events, never its memory. A line that
    /// a crash has cut off is ignored.
    /// </summary>
    internal sealed class QueueStore
    {
        private static readonly UTF8Encoding Utf8 = new UTF8Encoding(false);

        private readonly string path;
        private readonly int eventsMax;
        private readonly long charsMax;
        private readonly LinkedList<QueuedEvent> rows = new LinkedList<QueuedEvent>();
        private readonly Dictionary<string, LinkedListNode<QueuedEvent>> byId =
            new Dictionary<string, LinkedListNode<QueuedEvent>>();
        private long chars;
        private long fileChars;

        /// <summary>Loads the events that an earlier run has left. A file that cannot be read is reported.</summary>
        internal QueueStore(string path, int eventsMax, long charsMax, Action<PlaymeterError> report)
        {
            this.path = path;
            this.eventsMax = eventsMax;
            this.charsMax = charsMax;
            if (path == null)
            {
                return;
            }
            try
            {
                if (File.Exists(path))
                {
                    Load();
                }
                Rewrite();
            }
            catch (Exception failure)
            {
                report(FileError(failure));
            }
        }

        internal int Count
        {
            get { return rows.Count; }
        }

        /// <summary>Adds an event. Returns the number of oldest events that were dropped for it.</summary>
        internal int Add(QueuedEvent row, Action<PlaymeterError> report)
        {
            var dropped = Put(row);
            Append("+" + row.Id + " " + row.Text + "\n", report);
            return dropped;
        }

        /// <summary>Returns the oldest events, at most so many and so long.</summary>
        internal List<QueuedEvent> Oldest(int countMax, int batchCharsMax)
        {
            var batch = new List<QueuedEvent>();
            var length = 0;
            foreach (var row in rows)
            {
                length += row.Text.Length;
                if (batch.Count == countMax || (length > batchCharsMax && batch.Count > 0))
                {
                    break;
                }
                batch.Add(row);
            }
            return batch;
        }

        /// <summary>Removes events that the server has received or rejected.</summary>
        internal void Remove(List<QueuedEvent> done, Action<PlaymeterError> report)
        {
            var lines = new StringBuilder();
            foreach (var row in done)
            {
                Discard(row.Id);
                lines.Append('-').Append(row.Id).Append('\n');
            }
            Append(lines.ToString(), report);
        }

        private int Put(QueuedEvent row)
        {
            Discard(row.Id);
            byId[row.Id] = rows.AddLast(row);
            chars += row.Text.Length;
            var dropped = 0;
            while (rows.Count > eventsMax || (chars > charsMax && rows.Count > 1))
            {
                Discard(rows.First.Value.Id);
                dropped++;
            }
            return dropped;
        }

        private void Discard(string id)
        {
            LinkedListNode<QueuedEvent> node;
            if (byId.TryGetValue(id, out node))
            {
                chars -= node.Value.Text.Length;
                rows.Remove(node);
                byId.Remove(id);
            }
        }

        private void Load()
        {
            var text = File.ReadAllText(path, Utf8);
            // The last line has no end if a crash has cut it off.
            var lines = text.Substring(0, text.LastIndexOf('\n') + 1).Split('\n');
            foreach (var line in lines)
            {
                var space = line.IndexOf(' ');
                if (line.StartsWith("+") && space > 1 && line.EndsWith("}"))
                {
                    Put(new QueuedEvent { Id = line.Substring(1, space - 1), Text = line.Substring(space + 1) });
                }
                else if (line.StartsWith("-"))
                {
                    Discard(line.Substring(1));
                }
            }
        }

        private void Append(string lines, Action<PlaymeterError> report)
        {
            if (path == null || lines.Length == 0)
            {
                return;
            }
            try
            {
                fileChars += lines.Length;
                if (fileChars > 4 * charsMax)
                {
                    Rewrite();
                    return;
                }
                File.AppendAllText(path, lines, Utf8);
            }
            catch (Exception failure)
            {
                // The event is in memory: only the end of the program would lose it now.
                report(FileError(failure));
            }
        }

        /// <summary>Replaces the file by one with the queued events only. A crash leaves the old one or the new one.</summary>
        private void Rewrite()
        {
            var text = new StringBuilder();
            foreach (var row in rows)
            {
                text.Append('+').Append(row.Id).Append(' ').Append(row.Text).Append('\n');
            }
            var next = path + ".new";
            File.WriteAllText(next, text.ToString(), Utf8);
            if (File.Exists(path))
            {
                File.Replace(next, path, null);
            }
            else
            {
                File.Move(next, path);
            }
            fileChars = text.Length;
        }

        private static PlaymeterError FileError(Exception failure)
        {
            return new PlaymeterError("queue_file", "the queue cannot be read or written: " + failure.Message);
        }
    }
}
