using System;
using System.Collections;
using System.Collections.Generic;
using System.Globalization;
using System.Text;

namespace Playmeter
{
    /// <summary>
    /// JSON as plain values: <c>Dictionary&lt;string, object&gt;</c>, <c>List&lt;object&gt;</c>, <c>string</c>, <c>double</c>,
    /// <c>long</c>, <c>bool</c>, <c>null</c>.
    /// </summary>
    public static class Json
    {
        /// <summary>A deeper value is rejected: it would overflow the stack.</summary>
        private const int DepthMax = 64;

        /// <summary>Writes a value. Throws <c>ArgumentException</c> for a value that JSON cannot express.</summary>
        public static string Write(object value)
        {
            var text = new StringBuilder();
            Write(value, text, 0);
            return text.ToString();
        }

        /// <summary>Reads a value. Returns false if the text is not JSON.</summary>
        public static bool TryRead(string text, out object value)
        {
            var reader = new Reader(text);
            try
            {
                value = reader.Value(0);
                reader.SkipSpace();
                return reader.IsAtEnd;
            }
            catch (FormatException)
            {
                value = null;
                return false;
            }
        }

        private static void Write(object value, StringBuilder text, int depth)
        {
            if (depth > DepthMax)
            {
                throw new ArgumentException("the value is nested too deeply");
            }
            var map = value as IDictionary;
            var list = value as IEnumerable;
            if (value == null)
            {
                text.Append("null");
            }
            else if (value is string)
            {
                WriteString((string)value, text);
            }
            else if (value is bool)
            {
                text.Append((bool)value ? "true" : "false");
            }
            else if (value is float || value is double)
            {
                WriteNumber(Convert.ToDouble(value, CultureInfo.InvariantCulture), text);
            }
            else if (value is decimal || (value.GetType().IsPrimitive && !(value is char)))
            {
                text.Append(((IFormattable)value).ToString(null, CultureInfo.InvariantCulture));
            }
            else if (map != null)
            {
                WriteObject(map, text, depth);
            }
            else if (list != null)
            {
                WriteList(list, text, depth);
            }
            else
            {
                throw new ArgumentException("a value of type " + value.GetType().Name + " is not JSON");
            }
        }

        private static void WriteNumber(double number, StringBuilder text)
        {
            if (double.IsNaN(number) || double.IsInfinity(number))
            {
                throw new ArgumentException("a number must be finite");
            }
            text.Append(number.ToString("R", CultureInfo.InvariantCulture));
        }

        private static void WriteObject(IDictionary map, StringBuilder text, int depth)
        {
            text.Append('{');
            var isFirst = true;
            foreach (DictionaryEntry entry in map)
            {
                if (!isFirst)
                {
                    text.Append(',');
                }
                isFirst = false;
                WriteString(entry.Key.ToString(), text);
                text.Append(':');
                Write(entry.Value, text, depth + 1);
            }
            text.Append('}');
        }

        private static void WriteList(IEnumerable list, StringBuilder text, int depth)
        {
            text.Append('[');
            var isFirst = true;
            foreach (var item in list)
            {
                if (!isFirst)
                {
                    text.Append(',');
                }
                isFirst = false;
                Write(item, text, depth + 1);
            }
            text.Append(']');
        }

        private static void WriteString(string value, StringBuilder text)
        {
            text.Append('"');
            for (var i = 0; i < value.Length; i++)
            {
                var c = value[i];
                var isHalf = char.IsSurrogate(c) && !char.IsSurrogatePair(value, i)
                    && !(i > 0 && char.IsSurrogatePair(value, i - 1));
                if (c == '"' || c == '\\')
                {
                    text.Append('\\').Append(c);
                }
                else if (isHalf)
                {
                    // Half of a pair is not text: UTF-8 cannot express it.
                    text.Append("\\ufffd");
                }
                else if (c < ' ')
                {
                    text.Append("\\u").Append(((int)c).ToString("x4"));
                }
                else
                {
                    text.Append(c);
                }
            }
            text.Append('"');
        }

        private sealed class Reader
        {
            private readonly string text;
            private int at;

            internal Reader(string text)
            {
                this.text = text;
            }

            internal bool IsAtEnd
            {
                get { return at == text.Length; }
            }

            internal void SkipSpace()
            {
                while (at < text.Length && " \t\r\n".IndexOf(text[at]) >= 0)
                {
                    at++;
                }
            }

            internal object Value(int depth)
            {
                SkipSpace();
                if (IsAtEnd || depth > DepthMax)
                {
                    throw new FormatException();
                }
                switch (text[at])
                {
                    case '{': return Object(depth);
                    case '[': return List(depth);
                    case '"': return String();
                    case 't': return Word("true", true);
                    case 'f': return Word("false", false);
                    case 'n': return Word("null", null);
                    default: return Number();
                }
            }

            private object Word(string word, object value)
            {
                if (string.CompareOrdinal(text, at, word, 0, word.Length) != 0)
                {
                    throw new FormatException();
                }
                at += word.Length;
                return value;
            }

            private bool Consume(char c)
            {
                SkipSpace();
                if (IsAtEnd || text[at] != c)
                {
                    return false;
                }
                at++;
                return true;
            }

            private void Expect(char c)
            {
                if (!Consume(c))
                {
                    throw new FormatException();
                }
            }

            private object Object(int depth)
            {
                var map = new Dictionary<string, object>();
                Expect('{');
                if (Consume('}'))
                {
                    return map;
                }
                do
                {
                    SkipSpace();
                    var name = String();
                    Expect(':');
                    map[name] = Value(depth + 1);
                }
                while (Consume(','));
                Expect('}');
                return map;
            }

            private object List(int depth)
            {
                var list = new List<object>();
                Expect('[');
                if (Consume(']'))
                {
                    return list;
                }
                do
                {
                    list.Add(Value(depth + 1));
                }
                while (Consume(','));
                Expect(']');
                return list;
            }

            private string String()
            {
                Expect('"');
                var value = new StringBuilder();
                while (true)
                {
                    if (IsAtEnd)
                    {
                        throw new FormatException();
                    }
                    var c = text[at++];
                    if (c == '"')
                    {
                        return value.ToString();
                    }
                    value.Append(c == '\\' ? Escape() : c);
                }
            }

            private char Escape()
            {
                if (IsAtEnd)
                {
                    throw new FormatException();
                }
                var c = text[at++];
                switch (c)
                {
                    case 'b': return '\b';
                    case 'f': return '\f';
                    case 'n': return '\n';
                    case 'r': return '\r';
                    case 't': return '\t';
                    case 'u':
                        if (at + 4 > text.Length)
                        {
                            throw new FormatException();
                        }
                        at += 4;
                        int code;
                        var hex = text.Substring(at - 4, 4);
                        if (!int.TryParse(hex, NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out code))
                        {
                            throw new FormatException();
                        }
                        return (char)code;
                    default: return c;
                }
            }

            private object Number()
            {
                var from = at;
                while (at < text.Length && "+-0123456789.eE".IndexOf(text[at]) >= 0)
                {
                    at++;
                }
                var number = text.Substring(from, at - from);
                long whole;
                if (long.TryParse(number, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out whole))
                {
                    return whole;
                }
                double value;
                if (double.TryParse(number, NumberStyles.Float, CultureInfo.InvariantCulture, out value))
                {
                    return value;
                }
                throw new FormatException();
            }
        }
    }
}
